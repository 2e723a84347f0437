"""What the page's scripts and the server send each other: the truth behind `types/api.d.ts` and `docs/reference/openapi.json`.

What the server receives are pydantic models, which check it; what it sends are typed dictionaries, which cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from editor.errors import EditorError
from editor.kinds import Basis
from editor.text import is_utf8
from editor.web.drawing.elements import Element

R = TypeVar("R", bound=BaseModel)

Whole = Annotated[int, Field(ge=0, lt=2**53)]
"""A page has no larger whole numbers, and a database none above 2 ** 63."""
Ops = list[Whole]


def _check_unicode(text: str) -> str:
    """Half a character cannot be stored or sent."""
    if not is_utf8(text):
        raise ValueError("the text is not valid Unicode")
    return text


Text = Annotated[str, AfterValidator(_check_unicode)]
RELOAD = "Reload the page."
Component = dict[str, Any]
"""A part of the page as Dash takes it: its namespace, type and props."""


class _Received(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
    )


# ---- edits: what a person does to the plan ----


class Message(_Received):
    """A text over the graph."""

    text: Text
    bad: bool = False


class _Edit(_Received):
    sequence: Whole = 0
    """Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one."""
    message: Message | None = None
    """Shown when the edit is done, e.g. what an imported file came to."""


class Paint(_Edit):
    """Pins ops to a device; with ``force`` also those that it cannot run."""

    do: Literal["paint"]
    ops: Ops
    device: Whole
    force: bool = False


class Unpin(_Edit):
    """Removes the pins of ops."""

    do: Literal["unpin"]
    ops: Ops


class PinToLabel(_Edit):
    """Pins ops to a kind of device, a unit or a codegen."""

    do: Literal["label"]
    ops: Ops
    label: Text


class _Choice(_Edit):
    """Chooses ops. They are painted with ``device``, with ``unpin`` unpinned, otherwise selected."""

    ops: Ops
    device: Whole | None = None
    unpin: bool = False


class Region(_Choice):
    """Chooses the connected ops of one device."""

    do: Literal["region"]


class Between(_Choice):
    """Chooses everything on paths from ``first`` to ``ops``."""

    do: Literal["between"]
    first: Ops


class Grow(_Choice):
    """Chooses what belongs to some ops; ``how`` as in `Document.expand_selection`."""

    do: Literal["grow"]
    how: Literal["type", "alike", "block", "subgraph", "upstream", "downstream", "neighbours"]


class Filter(_Edit):
    """Selects the ops that an expression is true for."""

    do: Literal["filter"]
    text: Text


class RuleOps(_Edit):
    """Selects the ops that a rule matches."""

    do: Literal["rule-ops"]
    rule: Whole


class Automatic(_Edit):
    """Sets the policy, the rule for subgraphs, the source of costs and the choice of codegens."""

    do: Literal["automatic"]
    policy: Text
    grouping: Text
    costs: Text
    codegen: Text


class MoveDevice(_Edit):
    """Moves a device one place up or down in the table, or removes it."""

    do: Literal["raise-device", "lower-device", "remove-device"]
    name: Text


class ChangeProfile(_Edit):
    """Forgets the profile of a device, or puts the one before it back."""

    do: Literal["forget-profile", "put-back-profile"]
    name: Text


class AddDevice(_Edit):
    """Adds a device at the end of the table; ``text`` as after `HETERO:`."""

    do: Literal["add-device"]
    text: Text


class DeviceField(_Edit):
    """Sets a field of a device."""

    do: Literal["device-field"]
    name: Text
    """Of the device when the page was last told."""
    device: Whole
    """Its place in the table, where it has been renamed since."""
    field: Text
    value: Text | list[Text] | None
    """A text, a list of ops, or null where the field is empty."""


class ReorderDevices(_Edit):
    """Puts the devices into another order."""

    do: Literal["order"]
    names: list[Text]


class Rules(_Edit):
    """Replaces all rules."""

    do: Literal["rules"]
    rules: list[dict[str, Any]]


class GoToStep(_Edit):
    """Goes to a step of the history."""

    do: Literal["step"]
    step: Whole


class LayoutEdit(_Edit):
    """Makes a layout the plan, selects where it differs, forgets it, or takes a candidate of a tuning or of the phases."""

    do: Literal["use-layout", "show-layout", "remove-layout", "adopt", "use-phase"]
    name: Text


class HistoryEdit(_Edit):
    """Removes all pins, pins what a stroke moved beside the painted ops to where it was, walks in the history, or only shows
    the plan again."""

    do: Literal["reset", "keep-others", "undo", "redo", "show"]


Edit = Annotated[
    Paint
    | Unpin
    | PinToLabel
    | Region
    | Between
    | Grow
    | Filter
    | RuleOps
    | Automatic
    | MoveDevice
    | ChangeProfile
    | AddDevice
    | DeviceField
    | ReorderDevices
    | Rules
    | GoToStep
    | LayoutEdit
    | HistoryEdit,
    Field(discriminator="do"),
]


class Edits(_Received):
    """The edits of a page that the server has not confirmed yet, oldest first.

    A request that is lost does no harm, because the next one repeats its edits.
    """

    page: Text
    seen: Whole
    """Version of the plan that the page showed when it sent them."""
    edits: list[Edit]


# ---- the graph as it is drawn, the selection, search ----


class Detail(_Received):
    """How much of the graph is drawn; ``open`` are numbers of open blocks."""

    mode: Literal["ops", "blocks", "subgraphs"]
    open: list[Whole] = []


class DrawMode(_Received):
    """Draws every op, blocks or subgraphs."""

    do: Literal["mode"]
    mode: Literal["ops", "blocks", "subgraphs"]


class OpenBlocks(_Received):
    """Opens blocks."""

    do: Literal["open"]
    units: list[Whole]


class CloseBlocks(_Received):
    """Closes an open block, or the innermost one around each op."""

    do: Literal["close"]
    ops: Ops
    scope: Whole | None = None


class ChangeLevel(_Received):
    """Opens all blocks one level deeper, or closes all."""

    do: Literal["level"]
    deeper: bool


class Restore(_Received):
    """Draws what was drawn before the page was loaded again."""

    do: Literal["restore"]
    detail: Detail


class Reveal(_Received):
    """Opens the blocks around an op and selects it; ``close`` are blocks that were open for the op before."""

    do: Literal["reveal"]
    op: Whole
    close: list[Whole] = []


class Find(_Received):
    """Goes to an op by name, type or tensor; ``skip`` matches come before it."""

    do: Literal["find"]
    text: Text
    skip: Whole = 0


DrawingChange = Annotated[
    DrawMode | OpenBlocks | CloseBlocks | ChangeLevel | Restore | Reveal | Find,
    Field(discriminator="do"),
]


class DrawingRequest(_Received):
    """What is drawn, or null for what a document opens with, and what to change of it; the server keeps neither."""

    detail: Detail | None
    change: DrawingChange | None = None


class Selection(TypedDict):
    """Ops that are selected."""

    ops: list[int]
    tensors: NotRequired[list[int]]
    """Graph inputs or outputs, where no op is selected."""
    select: NotRequired[bool]
    """Select them in the graph, too."""
    count: NotRequired[bool]
    """Say how many ops there are, even if it is one."""
    reveal: NotRequired[bool]
    """Bring the first op into view."""
    message: NotRequired[str]
    missing: NotRequired[bool]
    """Nothing was found."""
    weights: NotRequired[bool]
    """Show figures of the constants that the op reads."""


class DetailShown(TypedDict):
    """How much of the graph is drawn."""

    mode: Literal["ops", "blocks", "subgraphs"]
    open: list[int]


class Drawing(TypedDict):
    """What is drawn after a change; ``elements`` is null where they stay as they are."""

    detail: DetailShown
    elements: list[Element] | None
    selection: Selection | None


class ContextNote(TypedDict):
    """Whether a plan fits at a context, in words."""

    said: str
    look: str
    """``over`` the memory, ``short`` of what runtimes add, or empty."""


class Hover(TypedDict):
    """What is shown of something: the text of a tooltip, the picture of a body."""

    content: Component | None


class SearchRow(TypedDict):
    """A result; ``ops`` are ranges as of a block."""

    kind: str
    title: str
    detail: str
    ops: str
    block: str
    """That an op is in; "" outside blocks, and of other kinds"""


class SearchResults(TypedDict):
    """Results for a text: the best ones, all ops as ranges, and what the text may become."""

    rows: list[SearchRow]
    ops: str
    completions: list[str]
    problem: str


class RuleBlock(TypedDict):
    """A block that a rule's scope can name, by its path, and how many ops it has."""

    path: str
    ops: int


class PatternMatches(TypedDict):
    """How many ops a pattern of a rule matches, and for a scope the blocks whose paths contain it."""

    count: int
    blocks: list[RuleBlock]


class Pane(TypedDict):
    """One layout: ``device`` is uint8 and ``part`` uint32 per visible op, base64; ``partColour`` as in ``View``."""

    name: str
    summary: str
    device: str
    part: str
    partColour: list[int]


class PaneDevice(TypedDict):
    """Colours, a name and the ``bits`` of ``ViewDevice``."""

    fill: str
    ink: str
    name: str
    bits: int


class Panes(TypedDict):
    """Layouts side by side; ``ops_named`` has type and name of each visible op."""

    layouts: list[Pane]
    devices: list[PaneDevice]
    ops_named: list[list[str]]


class MapData(TypedDict):
    """The whole model as packed arrays, see `map_data` of `drawing.panes`."""

    count: int
    width: int
    height: int
    x: str
    y: str
    source: str
    target: str
    types: list[str]
    type: str


class VersionPane(Pane):
    """One of two models: ``state`` is uint8 per visible op (0 the same in both, 1 changed, 2 only here), ``twins`` int32: the
    place of the op in the other model, or -1; base64. ``changes`` has words for ops that changed, by their place, ``ops`` the
    numbers of the visible ops as uint32, ``ops_named`` type and name of each."""

    document: str
    ops: str
    ops_named: list[list[str]]
    state: str
    twins: str
    changes: dict[str, str]


class Versions(TypedDict):
    """Two models side by side."""

    layouts: list[VersionPane]
    devices: list[PaneDevice]


# ---- the plan ----


class Colour(TypedDict):
    """A fill, and the colour of text on it."""

    fill: str
    ink: str


class ViewDevice(Colour):
    """A device of the table."""

    name: str
    planned: bool
    bits: int
    """Width in which it plans float tensors, where that is another than their own; else 0."""
    levels: dict[str, str]


class Scale(TypedDict):
    """The ends of a colour scale in words."""

    low: str
    high: str
    what: str


class Scales(TypedDict):
    """The scales of the colour modes that have one."""

    heat: Scale
    weight: Scale
    error: Scale


class RibbonPart(TypedDict):
    """One subgraph of a run; ``ops`` are ranges as of a block."""

    part: int
    device: int
    ops: str
    seconds: float
    bytes: int
    moved: int
    """Bytes that other devices send to it; 0 for none."""
    arrives: str
    """The same in words, and from where: "144 kB from NPU"; "" for none."""


class Ribbon(TypedDict):
    """A run from its first subgraph to its last. ``kind`` and ``source`` say what its times are."""

    parts: list[RibbonPart]
    kind: str
    source: str
    measured: bool
    rough: bool
    """Whether they rest on assumed speeds, and are rough"""
    at: str
    """Their context, where the headline is a measurement at another one: "after 127 tokens"; "" elsewhere."""
    off: str
    """What is said of ops that another device was wanted for, where all are on one device: "2 of them cannot run on NPU"."""


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
    error: list[int]
    """Empty while the accuracy of this plan is not measured"""
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


class Figures(TypedDict):
    """The figures of the status bar."""

    ops: int
    subgraphs: int
    boundaries: int
    transfers: int
    moved: int
    unknown: int
    pins: int
    context: int | None
    """Tokens of context at which a device is full; null where none gets full."""
    predicted: float | None
    """Seconds of a run."""
    between: float | None
    """Of these, seconds of transfers and of the starts of subgraphs."""
    rate: float | None
    """Predicted requests per second, where the policy aims at these."""
    basis: Basis | None
    """Of the prediction; null where there is none."""
    rough: bool
    """Whether the prediction rests on assumed speeds."""


class EditsAnswer(TypedDict):
    """What a request of edits came to."""

    view: View
    figures: Figures
    sequence: int
    """The last edit of the page that was applied."""
    selection: Selection | None
    """Ops that the last edit chose."""
    message: str
    """What the last edit that has something to say says, or what others did; "" for nothing."""
    panels: dict[str, Component | None]
    """Parts of the page that say what was done, by their ids."""


# ---- long work ----


class Progress(TypedDict):
    """Long work: ``done`` of ``total`` steps, or of 0 where they are not counted."""

    label: str
    done: int
    total: int
    cancellable: bool


class Status(TypedDict):
    """What a page asks for twice a second."""

    version: int
    problem: str
    """Why the workspace cannot be used; "" where it can."""
    working: Progress | None


class RunRequest(_Received):
    """A benchmark, a profile or a tuning to start."""

    kind: Literal["benchmark", "profile", "tune", "tokens", "accuracy"] = "benchmark"
    seconds: float | str | None = None
    """For the benchmark or the tuning in all, for the profile per device; 3 by default."""
    mode: Literal["latency", "throughput"] = "latency"
    requests: int | str | None = None
    """In flight, for throughput; 4 by default."""
    prompt: int | str | None = None
    """Tokens of the prompt, for tokens; 64 by default."""
    new: int | str | None = None
    """Tokens to generate; 32 by default."""
    memory: bool = False
    """Whether a benchmark then measures what the plan takes."""


class Run(TypedDict):
    """A run that was started."""

    run: str


class RunEvent(TypedDict):
    """How far a run is: events of ``GET /d/{document}/runs/events``."""

    run: str
    kind: str
    """``benchmark``, ``profile``, ``tune`` or ``tokens``"""
    done: bool
    text: str
    label: str
    """The same in a few words, for a button"""
    share: float | None
    """Of its time, 0 to 1; null where that is not known"""
    samples: int
    """How many samples there are."""


class Calibrated(TypedDict):
    """What a calibration did."""

    text: str


class Uploaded(TypedDict):
    """Where the model of an upload is."""

    path: str


class Imported(TypedDict):
    """The edit that does or shows what a file says; the page sends it, so that it is in order with its others."""

    edit: dict[str, Any]


def validated(kind: type[R], value: object, what: str) -> R:
    """A value of the page as a model.

    Raises:
        EditorError: a field is missing, unknown or of another type.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise EditorError(
            f"The page sent {what} that does not fit: {describe(error.errors())}. {RELOAD}"
        ) from error


def describe(errors: Sequence[Any]) -> str:
    """The first fault of a request, e.g. "edits.0.paint.force: Field required"."""
    place = ".".join(str(part) for part in errors[0]["loc"] if part != "body")
    return f"{place}: {errors[0]['msg']}" if place else str(errors[0]["msg"])
