"""Rules as the page draws them, and the labels that they and pins can name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from editor.devices.device import Device
from editor.errors import PinError
from editor.graph.graph import Graph, cached_per_graph
from editor.graph.scopes.tree import scopes_of
from editor.placement.rules import LEVELS, match_counts, nearest_type, parse_rules, path_parts
from editor.web.messages import PatternMatches, RuleBlock, RulesData
from editor.workspace.document import Document

KINDS = {
    "type": "op type",
    "name": "name (glob)",
    "regex": "name (regex)",
    "scope": "scope",
    "layer": "layers",
    "tensor": "output tensor (glob)",
}
_MOST_BLOCKS = 20
"""Blocks that are proposed for a text."""
_EXAMPLES = {
    "type": "Conv",
    "name": "/layers.3/*",
    "regex": r"attn/.*MatMul",
    "scope": "model/layers.0",
    "layer": "8-15",
    "tensor": "*_scale",
}


def rules_data(document: Document) -> RulesData:
    """The rules as ``assets/rules.js`` draws them: plain rules with their match counts, kinds of patterns and targets."""
    rules = document.placement.settings.rules
    counts = match_counts(document.graph, rules) if rules else []
    examples = _EXAMPLES | _found(document.graph)
    return {
        "rules": [
            {
                **rule.to_dict(),
                "count": count,
                "near": "" if count else nearest_type(document.graph, rule),
            }
            for rule, count in zip(rules, counts, strict=True)
        ],
        "kinds": [
            {"kind": kind, "label": label, "example": examples[kind]}
            for kind, label in KINDS.items()
        ],
        "targets": labels_of(document.devices),
    }


def pattern_matches(graph: Graph, kind: str, text: str) -> PatternMatches:
    """What a rule of one pattern matches; nothing where the pattern is not valid."""
    try:
        count = match_counts(graph, parse_rules([{kind: text, "to": "any"}]))[0]
    except PinError:
        count = 0
    return {"count": count, "blocks": _blocks_with(graph, text) if kind == "scope" else []}


def _blocks_with(graph: Graph, text: str) -> list[RuleBlock]:
    """Blocks whose paths contain a text or its parts, those that end with the parts first."""
    typed, wanted = text.strip().lower(), path_parts(text.lower())
    found: list[tuple[int, RuleBlock]] = []
    for scope in scopes_of(graph).scopes[1:]:
        path, size = "/".join(scope.path), len(wanted)
        parts = path_parts(path.lower())
        if wanted and parts[-size:] == wanted:
            rank = 0
        elif any(parts[at : at + size] == wanted for at in range(len(parts))) or (
            typed in path.lower()
        ):
            rank = 1
        else:
            continue
        if not scope.is_run:
            found.append((rank, {"path": path, "ops": len(scope.ops)}))
    found.sort(key=lambda one: one[0])
    return [block for _, block in found[:_MOST_BLOCKS]]


@cached_per_graph
def _found(graph: Graph) -> dict[str, str]:
    """Kind of a pattern -> an example that matches ops of this model, where it has such ops."""
    blocks = [scope.path for scope in scopes_of(graph).scopes[1:]]
    inner = next((path for path in blocks if len(path) > 1), blocks[0] if blocks else ())
    types = Counter(t for t, no in zip(graph.op_types, graph.op_is_constant, strict=True) if not no)
    found = {"scope": "/".join(inner), "type": types.most_common(1)[0][0] if types else ""}
    return {kind: example for kind, example in found.items() if example}


def labels_of(devices: Sequence[Device]) -> list[str]:
    """Names of devices, then labels of the levels that mean several of them but not all."""
    labels = [d.name for d in devices]
    for level in LEVELS:
        values = [d.labels()[level] for d in devices]
        labels += [
            f"{level}:{value}"
            for value in dict.fromkeys(values)
            if 1 < values.count(value) < len(devices)
        ]
    return labels
