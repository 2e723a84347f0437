"""What `partition` prints of a plan."""

from __future__ import annotations

import sys
from dataclasses import replace

from editor.errors import EditorError
from editor.placement.costs import estimate
from editor.placement.device_profile import basis_of, costs_of
from editor.placement.fallbacks import Fallback, chosen_elsewhere, fallbacks
from editor.placement.placement import solve
from editor.placement.rules import match_counts, rule_text
from editor.text import counted, human_bytes, human_seconds, shortened
from editor.workspace.plan import Plan

_MOST_REASONS, _MOST_KINDS = 4, 4
_REASON = 140
"""Letters of a reason."""


def print_summary(plan: Plan) -> None:
    """Prints where ops are, what that costs, what fell back and why, and what does not fit; notes go to stderr."""
    for note in plan.graph.notes:
        print(f"note: {note}", file=sys.stderr)
    for device in plan.devices:
        print(f"{device.name}: {counted(plan.placement.op_counts[device.name], 'op')} ({device.description})")
    assignment = plan.placement.assignment
    if assignment.objective is not None:
        source = str(plan.settings.policy_options.get("costs", "estimate"))
        basis = basis_of(costs_of(plan.graph, plan.devices, source), source, plan.placement.used_numbers)
        kind = basis if basis.detail else basis.kind
        proof = f", no placement is below {human_seconds(assignment.bound)}" if assignment.bound is not None else ""
        print(f"{assignment.objective_name}: {human_seconds(assignment.objective)} ({kind}){proof}")
    division = plan.placement.division
    transfers = sum(len(b.to_devices) for b in division.boundaries)
    print(f"{counted(len(plan.subgraphs), 'subgraph')}, {counted(transfers, 'transfer')}, {division.moved_text} moved per run")
    over = [m for m in plan.run_memory.devices if m.limit is not None and m.peak > m.limit]
    remedy = _remedy(plan) if over else ""
    for memory in over:
        if memory.limit is not None:
            print(f"warning: {memory.device} is over its memory by {human_bytes(memory.peak - memory.limit)} "
                  f"(peak {human_bytes(memory.peak)} of {human_bytes(memory.limit)}){remedy}")
    _print_fallbacks(plan)


def _remedy(plan: Plan) -> str:
    """What to do about a device that is too small: the policy `memory`, but only where it finds a placement."""
    try:
        solve(plan.graph, plan.devices, replace(plan.settings, policy="memory", policy_options={}))
    except EditorError:
        return "; the policy memory finds nothing that fits either, and says why"
    return "; the policy memory keeps within it"


def _print_fallbacks(plan: Plan) -> None:
    """The kinds of ops that are not on the device that was wanted, and why; rules without ops; what was forced."""
    placement = plan.placement
    found = fallbacks(placement, estimate(plan.graph, plan.devices)) if len(plan.devices) > 1 else []
    by_reason: dict[tuple[str, str], list[Fallback]] = {}
    for fallback in sorted(found, key=lambda f: -len(f.ops)):
        reason = fallback.reason.replace(f" ({fallback.source})", "") if fallback.source else fallback.reason
        by_reason.setdefault((fallback.wanted, reason), []).append(fallback)
    for (wanted, reason), kinds in list(by_reason.items())[:_MOST_REASONS]:
        ops = ", ".join(f"{len(f.ops)} {f.op_type}" for f in kinds[:_MOST_KINDS])
        more = f" and {counted(len(kinds) - _MOST_KINDS, 'more kind')}" if len(kinds) > _MOST_KINDS else ""
        print(f"  not on {wanted}: {ops}{more}: {shortened(reason, _REASON)}")
    if len(by_reason) > _MOST_REASONS:
        print(f"  and for {counted(len(by_reason) - _MOST_REASONS, 'more reason')}: export --to md lists them")
    for name, count in chosen_elsewhere(placement).items():
        print(f"  {counted(count, 'op')} may run on {name} and {'is' if count == 1 else 'are'} elsewhere by the policy "
              f"{placement.settings.policy}: `why PLAN KEY` says why")
    rules = placement.settings.rules
    for rule, count in zip(rules, match_counts(plan.graph, rules) if rules else (), strict=True):
        if not count:
            print(f"warning: no op matches the rule {rule_text(rule)}")
    if placement.forced_ops:
        print(f"warning: {counted(len(placement.forced_ops), 'op')} forced onto a device that cannot run them")
