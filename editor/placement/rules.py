"""Rules and labels: which devices the ops that a pattern matches may use."""

from __future__ import annotations

import difflib
import fnmatch
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from editor.arguments import as_text, check_one_of
from editor.devices.device import Device
from editor.devices.vocabulary import op_name
from editor.errors import PinError
from editor.files import read_text
from editor.graph.graph import Bools, Graph
from editor.graph.scopes.tree import scopes_of
from editor.yaml_text import YamlError, load_yaml

LEVELS = ("device", "unit", "codegen")


def label_mask(label: str, devices: Sequence[Device]) -> Bools:
    """[device] whether a label selects it.

    Device names have precedence (case-insensitive), then device, unit and codegen labels. ``unit:1``
    states the level.

    Raises:
        PinError: no device has this name or label.
    """
    return _level_and_mask(label, devices)[1]


def _level_and_mask(label: str, devices: Sequence[Device]) -> tuple[str, Bools]:
    """The level of a label, "" for the name of a device, which determines all levels; and [device] whether it is selected."""
    level, _, value = as_text(label, "the target of a pin", PinError).partition(":")
    if level in LEVELS and value:
        mask = np.array([device.labels()[level] == value for device in devices], bool)
        if mask.any():
            return level, mask
    for exact in (True, False):
        names = [d.name if exact else d.name.lower() for d in devices]
        wanted = label if exact else label.lower()
        if wanted in names:
            return "", np.array([name == wanted for name in names], bool)
    for level in LEVELS:
        labels = [d.labels()[level].lower() for d in devices]
        if label.lower() in labels:
            return level, np.array([text == label.lower() for text in labels], bool)
    raise PinError(f"unknown device {label!r}; this plan has {', '.join(d.name for d in devices)}")


MAX_LENGTH = 4096
"""Characters of a pattern."""
MATCH_SECONDS = 1.0
"""For the patterns of all rules and the names of all ops of a model."""
_MAX_MEMORY = 1 << 20
_HUGE_REPETITION = re.compile(r"\{\d{4,}[,}]|\{\d*,\d{4,}\}")


@lru_cache(maxsize=64)
def regular_expression(text: str) -> Any:
    """A compiled regular expression; its ``search`` takes a name.

    Raises:
        ValueError: it is none, or too large; the message says why.
    """
    import re2  # here, because few plans need it

    check_length(text)
    if _HUGE_REPETITION.search(text):  # RE2 would take it for plain text
        raise ValueError("a part of it may repeat at most 999 times")
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MAX_MEMORY
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(reason[:120]) from None
    except UnicodeEncodeError:
        raise ValueError("it has characters that are not text") from None


def check_length(text: str) -> None:
    """Raises ``ValueError`` when a pattern is too long."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"it has {len(text):,} characters, the limit is {MAX_LENGTH:,}")


class Deadline:
    """The time that all patterns of some rules have together."""

    def __init__(self) -> None:
        self._end = time.monotonic() + MATCH_SECONDS

    def check(self, pattern: str) -> None:
        """Raises ``PinError``, which names the pattern that is being matched, when the time is over."""
        if time.monotonic() > self._end:
            raise PinError(
                f"the patterns of the rules take more than {MATCH_SECONDS:g} s; the last one was {pattern[:80]!r}; "
                "make it simpler"
            )


_PATTERNS = ("type", "name", "regex", "scope", "layer", "tensor")
_KEYS = (*_PATTERNS, "nth", "to")
_TEXTS = {
    "type": "an op name of ONNX, Glow or Relay; * and ? stand for any text",
    "name": "a glob over op names",
    "regex": "a regular expression (RE2), searched for in op names",
    "scope": "a prefix of an op's name or of the path of its block, such as model/layers.3",
    "layer": "a number of a repeated block, or the first and the last: 8-15",
    "tensor": "a glob over the names of an op's outputs",
    "nth": "which of the matching ops: first, last, an index from 0, or a slice such as 0:3",
    "to": "the device, unit or codegen that the ops may use",
}
"""What each key of a rule is, for the schema."""
_LAYERS = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?", re.ASCII)
_SLICE = re.compile(r"\[?(-?\d*):(-?\d*)\]?")


@dataclass(frozen=True)
class Rule:
    """Assigns the ops that match all of its patterns to a device, unit or codegen."""

    to: str
    type: str | None = None
    """An op name of ONNX, Glow or Relay; ``*`` and ``?`` stand for any text."""
    name: str | None = None
    """A glob over op names."""
    regex: str | None = None
    """A regular expression (RE2: no look-around, no back-references), searched for in op names."""
    scope: str | None = None
    """A prefix of a slash- or dot-separated op name or of the path of its block, such as ``model/layers.3``."""
    layer: str | None = None
    """A number of a repeated block, or the first and the last: ``8-15``."""
    tensor: str | None = None
    """A glob over the names of an op's outputs."""
    nth: str | None = None
    """Which of the matching ops: ``first``, ``last``, an index from 0, or a slice such as ``0:3``."""

    def to_dict(self) -> dict[str, str]:
        """The rule as a mapping, without the patterns that are not set."""
        return {key: value for key in _KEYS if (value := getattr(self, key)) is not None}

    def matches(
        self, graph: Graph, candidates: Bools, deadline: Deadline | None = None
    ) -> list[int]:
        """Candidates that the rule matches, in topological order.

        Raises:
            PinError: the deadline, or one of its own, is over.
        """
        deadline = deadline or Deadline()
        expression = None if self.regex is None else regular_expression(self.regex)
        layered = None if self.layer is None else _in_layers(graph, self.layer)
        slowest = self.regex or self.name or self.tensor or self.type or ""
        ops = []
        for op in graph.order.tolist():
            if (
                candidates[op]
                and (layered is None or op in layered)
                and self._matches(graph, op, expression)
            ):
                ops.append(op)
            deadline.check(slowest)
        return _nth(ops, self.nth) if self.nth is not None else ops

    def _matches(self, graph: Graph, op: int, expression: Any) -> bool:
        return (
            self._type_matches(graph, op)
            and (self.name is None or fnmatch.fnmatchcase(graph.display_name(op), self.name))
            and (expression is None or expression.search(graph.display_name(op)) is not None)
            and (
                self.scope is None
                or _in_scope(graph.display_name(op), self.scope)
                or _in_scope(scopes_of(graph).path_of(op), self.scope)
            )
            and (
                self.tensor is None
                or any(
                    fnmatch.fnmatchcase(graph.tensor_names[t], self.tensor)
                    for t in graph.op_outputs[op].tolist()
                    if t >= 0
                )
            )
        )

    def _type_matches(self, graph: Graph, op: int) -> bool:
        if self.type is None:
            return True
        if any(c in self.type for c in "*?"):
            return fnmatch.fnmatchcase(graph.type_label(op), self.type)
        meaning = op_name(self.type, frozenset({graph.op_types[op]}))
        return self.type == graph.type_label(op) or (
            meaning is not None and meaning.matches(graph, op)
        )


def parse_rules(data: Any, source: str = "rules") -> tuple[Rule, ...]:
    """Parses rules from plain data.

    Args:
        data: a list of mappings (``{type: Conv, nth: first, to: GPU}``), a mapping of op name to target
            (``{"nn.conv2d": "gpu"}``, as TVM users write), or Glow's partition config (``nodeToPartition``).
        source: name of the data in error messages.

    Raises:
        PinError: a rule is not valid; the message names it and the fault.
    """
    if isinstance(data, Rule):
        return (data,)
    if isinstance(data, Mapping):
        if "nodeToPartition" in data:
            return _glow_rules(data, source)
        return parse_rules([{"type": k, "to": v} for k, v in data.items()], source)
    if not isinstance(data, Sequence) or isinstance(data, str):
        raise PinError(
            f"{source}: rules are a list of `{{type: Conv, to: GPU}}` or a mapping of op type to device"
        )
    return tuple(
        rule if isinstance(rule, Rule) else _parse_rule(rule, f"{source}, rule {i + 1}")
        for i, rule in enumerate(data)
    )


def load_rules(path: str | Path) -> tuple[Rule, ...]:
    """Loads rules from a YAML or JSON file.

    Raises:
        PinError: the file cannot be read or a rule is not valid.
    """
    return parse_rules_text(read_text(path, PinError), str(path))


def parse_rules_text(text: str, source: str) -> tuple[Rule, ...]:
    """Parses rules from YAML or JSON text.

    Raises:
        PinError: the text is not valid; the message names the line.
    """
    try:
        data = load_yaml(text)[1]
    except YamlError as error:
        raise PinError(
            f"{source}{f':{error.line}' if error.line else ''}: not valid YAML or JSON ({error})"
        ) from error
    return parse_rules(data or [], source)


def schema() -> dict[str, Any]:
    """The JSON Schema of a list of rules."""
    plain = {"type": ["string", "number"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rules of Hetero Editor",
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["to"],
            "properties": {key: {"description": _TEXTS[key], **plain} for key in _KEYS},
        },
    }


def apply_rules(
    graph: Graph, devices: Sequence[Device], rules: Sequence[Rule], candidates: Bools
) -> tuple[Bools, dict[int, str]]:
    """Applies rules to the ops that they match.

    Returns:
        [op, device] whether the rules allow the op to use the device; and op -> text that names its rules.

    Raises:
        PinError: a rule names an unknown target.
    """
    mask = np.ones((len(graph), len(devices)), bool)
    texts: dict[int, str] = {}
    decided = ops_decided(graph, devices, rules, candidates)
    for number, (rule, ops) in enumerate(zip(rules, decided, strict=True), 1):
        mask[ops] &= label_mask(rule.to, devices)
        for op in ops:
            texts[op] = f"{texts[op]}, rule {number}" if op in texts else f"rule {number}"
            texts[op] += f" ({rule_text(rule)})"
    return mask, texts


def ops_decided(
    graph: Graph, devices: Sequence[Device], rules: Sequence[Rule], candidates: Bools
) -> list[list[int]]:
    """[rule] the ops that it decides: those that it matches and no rule before it has decided at its level.

    Raises:
        PinError: a rule names an unknown target.
    """
    decided: dict[str, Bools] = {}
    settled = np.zeros(len(graph), bool)
    """[op] whether a rule named a device, which determines all levels."""
    found, deadline = [], Deadline()
    for rule in rules:
        level = _level_and_mask(rule.to, devices)[0]
        taken = decided.setdefault(level, np.zeros(len(graph), bool))
        ops = rule.matches(graph, candidates & ~taken & ~settled, deadline)
        taken[ops] = True
        settled[ops] |= level == ""
        found.append(ops)
    return found


def match_counts(graph: Graph, rules: Sequence[Rule]) -> list[int]:
    """[rule] number of ops that it matches, regardless of the other rules."""
    everything, deadline = ~graph.op_is_constant, Deadline()
    return [len(rule.matches(graph, everything, deadline)) for rule in rules]


def nearest_type(graph: Graph, rule: Rule) -> str:
    """The op type of a model that a rule may mean by one that the model does not have; "" where none is like it."""
    plain = {graph.type_label(op).lower(): graph.type_label(op) for op in graph.order.tolist()}
    if not rule.type or rule.type in plain.values():
        return ""
    near = difflib.get_close_matches(rule.type.lower(), plain, n=1)
    return plain[near[0]] if near else ""


def _parse_rule(data: Any, where: str) -> Rule:
    if not isinstance(data, Mapping):
        raise PinError(
            f"{where}: a rule is a mapping such as {{type: Conv, to: GPU}}, not {data!r}"
        )
    for key in data:
        check_one_of(key, _KEYS, f"{where}: unknown key", PinError)
    empty = [
        k for k in (*_PATTERNS, "nth") if k in data and (data[k] is None or str(data[k]) == "")
    ]
    if empty:
        raise PinError(
            f"{where}: {empty[0]} is empty; say what it must be, or leave it out to match every op"
        )
    nested = [k for k, v in data.items() if v is not None and not isinstance(v, str | int | float)]
    if nested:
        raise PinError(
            f"{where}: {nested[0]} must be plain text, not {type(data[nested[0]]).__name__}"
        )
    if data.get("to") in (None, ""):
        raise PinError(f"{where}: the target is missing (such as `to: GPU`)")
    rule = Rule(**{k: str(v) for k, v in data.items() if v is not None})
    _check_patterns(rule, where)
    if rule.nth is not None:
        try:
            _nth([], rule.nth)
        except ValueError:
            raise PinError(
                f"{where}: nth must be first, last, a number or a slice such as 0:3, "
                f"not {rule.nth!r}"
            ) from None
    return rule


def _check_patterns(rule: Rule, where: str) -> None:
    for key in _PATTERNS:
        try:
            check_length(getattr(rule, key) or "")
        except ValueError as error:
            raise PinError(f"{where}: {key}: {error}") from None
    match = None if rule.layer is None else _LAYERS.fullmatch(rule.layer.strip())
    if rule.layer is not None and (match is None or int(match[2] or match[1]) < int(match[1])):
        raise PinError(
            f"{where}: layer: {rule.layer[:40]!r} is not a layer; write a number, or two such as 8-15"
        )
    if rule.regex is not None:
        try:
            regular_expression(rule.regex)
        except ValueError as error:
            raise PinError(
                f"{where}: {rule.regex[:80]!r} is not a regular expression ({error})"
            ) from None


def _glow_rules(data: Mapping[str, Any], source: str) -> tuple[Rule, ...]:
    """Glow's user-defined partition: node -> partition number, partition number -> backend."""
    backends, nodes = data.get("backendNames") or [], data["nodeToPartition"]
    if (
        not isinstance(nodes, Mapping)
        or not isinstance(backends, Sequence)
        or isinstance(backends, str)
    ):
        raise PinError(
            f"{source}: nodeToPartition must map node names to partition numbers, which count the list backendNames"
        )
    rules = []
    for name, number in nodes.items():
        if not isinstance(number, int) or not 0 <= number < len(backends):
            raise PinError(
                f"{source}: node {name!r} is in partition {number!r}; backendNames has {len(backends)}"
            )
        rule = Rule(to=str(backends[number]), regex=f"^{re.escape(str(name))}$")
        _check_patterns(rule, source)
        rules.append(rule)
    return tuple(rules)


def _in_layers(graph: Graph, layers: str) -> set[int]:
    """Ops of the layers ``first-last``."""
    match = _LAYERS.fullmatch(layers.strip())
    wanted = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
    return {op for op, layer in scopes_of(graph).layer_of_op.items() if layer in wanted}


def _in_scope(name: str, scope: str) -> bool:
    wanted = path_parts(scope)
    return bool(wanted) and path_parts(name)[: len(wanted)] == wanted


def path_parts(name: str) -> list[str]:
    """The parts of a name or path; the page writes ``a > b``, exporters ``/a/b`` or ``a.b``."""
    return [part for part in re.split(r"\s*[>/.]\s*", name.strip()) if part]


def _nth(ops: list[int], nth: str) -> list[int]:
    if nth == "first":
        return ops[:1]
    if nth == "last":
        return ops[-1:]
    match = _SLICE.fullmatch(nth.strip())
    if match:
        start, stop = (int(g) if g else None for g in match.groups())
        return ops[start:stop]
    return ops[int(nth) :][:1]


def change_of_rules(before: Sequence[Rule], after: Sequence[Rule]) -> str:
    """Describes what changed, for a list of steps: "rule added: type=Conv → GPU", "rules in another order", "3 rules"."""
    added, removed = [r for r in after if r not in before], [r for r in before if r not in after]
    if len(added) == len(removed) == 1:
        return f"rule changed: {rule_text(added[0])}"
    if len(added) == 1 and not removed:
        return f"rule added: {rule_text(added[0])}"
    if len(removed) == 1 and not added:
        return f"rule removed: {rule_text(removed[0])}"
    if not added and not removed and len(before) == len(after):
        return "rules in another order"
    return f"{len(after)} rule{'s' if len(after) != 1 else ''}"


def rule_text(rule: Rule) -> str:
    """E.g. "type=Conv nth=first → GPU"."""
    patterns = " ".join(f"{key}={value}" for key, value in rule.to_dict().items() if key != "to")
    return f"{patterns or 'any op'} → {rule.to}"


_PATTERNS_IN_WORDS = {
    "type": "of type {}",
    "name": "named {}",
    "regex": "whose name matches {}",
    "scope": "in {}",
    "layer": "in layers {}",
    "tensor": "that make {}",
}


def rule_in_words(rule: Rule) -> str:
    """E.g. "Ops of type Conv in layers 8-15, only the first, to GPU"."""
    given = rule.to_dict()
    which = [text.format(given[key]) for key, text in _PATTERNS_IN_WORDS.items() if key in given]
    words = f"Ops {' '.join(which)}" if which else "All ops"
    if rule.nth in ("first", "last"):
        words += f", only the {rule.nth},"
    elif rule.nth is not None:
        words += f", of these only [{rule.nth}] counted from 0,"
    return f"{words} to {rule.to}"
