"""Messages between the page and the server, and what the graph's elements carry.

`types/messages.d.ts` declares the same for the scripts in `assets/`; a test compares the fields of both.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

# ---- strokes: what a person does to the plan ----


class Message(TypedDict):
    """A text over the graph."""

    text: str
    bad: bool


class _Stroke(TypedDict):
    sequence: NotRequired[int]
    """Numbers the strokes of one page, so that the server applies each once and in order."""
    message: NotRequired[Message]
    """Shown when the stroke is done, e.g. what an imported file came to."""


class Paint(_Stroke):
    """Pins ops to a device; ``force`` also those that it cannot run."""

    do: Literal["paint"]
    ops: list[int]
    device: int
    force: bool


class Unpin(_Stroke):
    """Removes the pins of ops."""

    do: Literal["unpin"]
    ops: list[int]


class Label(_Stroke):
    """Pins ops to a kind of device, a unit or a codegen."""

    do: Literal["label"]
    ops: list[int]
    label: str


class Region(_Stroke):
    """Connected ops of one device. As for all ways to choose ops: painted, unpinned, or selected without a device."""

    do: Literal["region"]
    ops: list[int]
    device: int | None
    unpin: bool


class Between(_Stroke):
    """Everything on paths from ``first`` to ``ops``."""

    do: Literal["between"]
    first: list[int]
    ops: list[int]
    device: int | None
    unpin: bool


class Grow(_Stroke):
    """What belongs to some ops; ``how`` as in `Document.expand_selection`."""

    do: Literal["grow"]
    how: Literal["type", "alike", "block", "subgraph", "upstream", "downstream", "neighbours"]
    ops: list[int]
    device: int | None
    unpin: bool


class Filter(_Stroke):
    """Selects the ops that an expression is true for."""

    do: Literal["filter"]
    text: str


class RuleOps(_Stroke):
    """Selects the ops that a rule matches."""

    do: Literal["rule-ops"]
    rule: int


class Automatic(_Stroke):
    """Another policy, way to form subgraphs, source of costs or choice of codegens."""

    do: Literal["automatic"]
    policy: str
    grouping: str
    costs: str
    codegen: str


class MoveDevice(_Stroke):
    """Moves a device one place up or down in the table, removes it, forgets its profile or puts the one before back."""

    do: Literal[
        "raise-device", "lower-device", "remove-device", "forget-profile", "put-back-profile"
    ]
    name: str


class AddDevice(_Stroke):
    """Adds a device at the end of the table; ``text`` as after `HETERO:`."""

    do: Literal["add-device"]
    text: str


class DeviceField(_Stroke):
    """Sets a field of the Devices tab; a text, a list of ops, or None where it is empty."""

    do: Literal["device-field"]
    name: str
    """Of the device when the page was last told."""
    device: int
    """Its place in the table, where it has been renamed since."""
    field: str
    value: str | list[str] | None


class Order(_Stroke):
    """Another order of the devices."""

    do: Literal["order"]
    names: list[str]


class Rules(_Stroke):
    """Replaces all rules."""

    do: Literal["rules"]
    rules: list[dict[str, Any]]


class Step(_Stroke):
    """Goes to a step of the history."""

    do: Literal["step"]
    step: int


class Layout(_Stroke):
    """Makes a layout the plan, selects where it differs, or takes a candidate of a tuning."""

    do: Literal["use-layout", "show-layout", "adopt"]
    name: str


class Simple(_Stroke):
    """Removes all pins, walks in the history, or only shows the plan again."""

    do: Literal["reset", "undo", "redo", "show"]


Stroke = (
    Paint
    | Unpin
    | Label
    | Region
    | Between
    | Grow
    | Filter
    | RuleOps
    | Automatic
    | MoveDevice
    | AddDevice
    | DeviceField
    | Order
    | Rules
    | Step
    | Layout
    | Simple
)


class Strokes(TypedDict):
    """All strokes of a page that the server has not confirmed yet, oldest first.

    A request that is lost or overtaken does no harm, because the next one repeats its strokes.
    """

    page: str
    seen: int
    """Version of the plan that the page showed when it sent them."""
    strokes: list[dict[str, Any]]


class Confirmed(TypedDict):
    """The last stroke of a page that was applied."""

    page: str
    sequence: int
    problem: str
    """Why the strokes after it are not stored yet; "" where all are."""


class Working(TypedDict):
    """Long work: ``done`` of ``total`` steps, or of 0 where they are not counted."""

    words: str
    done: int
    total: int
    canEnd: bool


class Standing(TypedDict):
    """What a page asks for every second."""

    version: int
    problem: str
    """Why the workspace cannot be used; "" where it can."""
    working: Working | None


# ---- how much is drawn ----


class Detail(TypedDict):
    """How much of the graph is drawn; ``open`` are numbers of open blocks."""

    mode: str
    open: list[int]


class _DetailRequest(TypedDict):
    sequence: NotRequired[int]
    """Makes every request another one: Dash does not send the same data twice."""


class ModeRequest(_DetailRequest):
    """Every op, blocks or subgraphs."""

    do: Literal["mode"]
    mode: str


class OpenBlocksRequest(_DetailRequest):
    """Opens blocks."""

    do: Literal["open"]
    units: list[int]


class CloseBlocksRequest(_DetailRequest):
    """Closes an open block, or the innermost one around each op."""

    do: Literal["close"]
    ops: list[int]
    scope: NotRequired[int]


class LevelRequest(_DetailRequest):
    """Opens all blocks one level deeper, or closes all."""

    do: Literal["level"]
    deeper: bool


class RestoreRequest(_DetailRequest):
    """Back to what was drawn before the page was loaded again."""

    do: Literal["restore"]
    detail: Detail


class RevealRequest(_DetailRequest):
    """Opens the blocks around an op and selects it; ``close`` are blocks that were open for the op before."""

    do: Literal["reveal"]
    op: int
    close: list[int]


class FindRequest(_DetailRequest):
    """Goes to an op by name, type or tensor; ``skip`` matches come before it."""

    do: Literal["find"]
    text: str
    skip: int


DetailRequest = (
    ModeRequest
    | OpenBlocksRequest
    | CloseBlocksRequest
    | LevelRequest
    | RestoreRequest
    | RevealRequest
    | FindRequest
)


# ---- selection, tooltip, comparison ----


class Selection(TypedDict):
    """Ops that are selected. The server sends one with ``select`` so that the page selects them."""

    ops: list[int]
    tensor: NotRequired[int]
    """A graph input or output, where no op is selected."""
    select: NotRequired[bool]
    count: NotRequired[bool]
    """Say how many ops there are, even if it is one."""
    reveal: NotRequired[bool]
    """Bring the first op into view."""
    message: NotRequired[str]
    missing: NotRequired[bool]
    """Nothing was found."""


class HoverRequest(TypedDict):
    """What the pointer rests on: the ops of a node, or [producer, consumer] pairs of an edge."""

    ops: list[int]
    pairs: list[list[int]]
    number: int


class SearchRequest(TypedDict):
    """What stands in the search field."""

    text: str
    number: int


class SearchRow(TypedDict):
    """A result; ``ops`` are ranges as of a block."""

    kind: str
    title: str
    detail: str
    ops: str


class SearchResults(TypedDict):
    """Results for a text: the best ones, all ops as ranges, and what the text may become."""

    number: int
    rows: list[SearchRow]
    ops: str
    completions: list[str]
    problem: str


class LayoutNames(TypedDict):
    """Layouts to draw side by side, to put into a report, or to forget."""

    names: list[str]
    sequence: int


class Pane(TypedDict):
    """One layout: ``device`` is uint8 and ``part`` uint32 per visible op, base64."""

    name: str
    summary: str
    device: str
    part: str


class PaneDevice(TypedDict):
    """Colours and a short name."""

    fill: str
    ink: str
    short: str


class Panes(TypedDict):
    """Layouts side by side."""

    layouts: list[Pane]
    devices: list[PaneDevice]


class MapData(TypedDict):
    """The whole model as packed arrays, see `drawing.map`."""

    count: int
    width: int
    height: int
    x: str
    y: str
    source: str
    target: str
    types: list[str]
    type: str


# ---- the plan ----


class Colour(TypedDict):
    """A fill, and the colour of text on it."""

    fill: str
    ink: str


class ViewDevice(Colour):
    """A device of the table."""

    name: str
    planned: bool
    levels: dict[str, str]


class Scale(TypedDict):
    """The ends of a colour scale in words."""

    low: str
    high: str
    what: str


class Scales(TypedDict):
    """Of the colour modes that have one."""

    heat: Scale
    weight: Scale


class RibbonPart(TypedDict):
    """One subgraph of a run; ``ops`` are ranges as of a block."""

    part: int
    device: int
    ops: str
    seconds: float
    bytes: int
    moved: int
    """Bytes that other devices send to it; 0 for none."""


class Ribbon(TypedDict):
    """A run from its first subgraph to its last. ``kind`` and ``source`` say what its times are."""

    parts: list[RibbonPart]
    kind: str
    source: str
    measured: bool
    fallbacks: int
    """Ops that are not on the device that was wanted; only counted where all are on one device, else 0."""


class RuleKind(TypedDict):
    """A kind of pattern."""

    kind: str
    label: str
    example: str


class RulesData(TypedDict):
    """The rules with their match counts, kinds of patterns, and what a rule can name."""

    rules: list[dict[str, Any]]
    kinds: list[RuleKind]
    targets: list[str]


class View(TypedDict):
    """The plan as the page draws it. Lists per op are in the order of ``ops``."""

    document: str
    version: int
    ops: list[int]
    device: list[int]
    part: list[int]
    pin: list[int]
    """0 free, 1 pinned, 2 forced"""
    devices: list[ViewDevice]
    palette: list[Colour]
    partColour: list[int]
    heat: list[int]
    weight: list[int]
    scales: Scales
    policy: str
    costs: str
    codegen: str
    grouping: str
    rules: RulesData
    step: str
    undo: bool
    redo: bool
    change: int
    """The first op behind the first change of device, in the order of a run; -1 where there is none."""
