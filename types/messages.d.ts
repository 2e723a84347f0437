/* Messages between the page and the server, and what the graph's elements carry. Mirrors `editor/web/messages.py`, field by
   field: `tests/web/test_messages.py` compares the two. */

declare namespace Messages {
  /** A text over the graph. */
  interface Message {
    text: string;
    bad: boolean;
  }

  /** Pins ops to a device; `force` also those that it cannot run. */
  interface Paint {
    sequence?: number;
    message?: Message;
    do: "paint";
    ops: number[];
    device: number;
    force: boolean;
  }

  /** Removes the pins of ops. */
  interface Unpin {
    sequence?: number;
    message?: Message;
    do: "unpin";
    ops: number[];
  }

  /** Pins ops to a kind of device, a unit or a codegen. */
  interface Label {
    sequence?: number;
    message?: Message;
    do: "label";
    ops: number[];
    label: string;
  }

  /** Connected ops of one device. As for all ways to choose ops: painted, unpinned, or selected without a device. */
  interface Region {
    sequence?: number;
    message?: Message;
    do: "region";
    ops: number[];
    device: number | null;
    unpin: boolean;
  }

  /** Everything on paths from `first` to `ops`. */
  interface Between {
    sequence?: number;
    message?: Message;
    do: "between";
    first: number[];
    ops: number[];
    device: number | null;
    unpin: boolean;
  }

  /** What belongs to some ops; `how` as in `Document.expand_selection`. */
  interface Grow {
    sequence?: number;
    message?: Message;
    do: "grow";
    how: "type" | "alike" | "block" | "subgraph" | "upstream" | "downstream" | "neighbours";
    ops: number[];
    device: number | null;
    unpin: boolean;
  }

  /** Selects the ops that an expression is true for. */
  interface Filter {
    sequence?: number;
    message?: Message;
    do: "filter";
    text: string;
  }

  /** Selects the ops that a rule matches. */
  interface RuleOps {
    sequence?: number;
    message?: Message;
    do: "rule-ops";
    rule: number;
  }

  /** Another policy, way to form subgraphs, source of costs or choice of codegens. */
  interface Automatic {
    sequence?: number;
    message?: Message;
    do: "automatic";
    policy: string;
    grouping: string;
    costs: string;
    codegen: string;
  }

  /** Moves a device one place up or down in the table, removes it, forgets its profile or puts the one before back. */
  interface MoveDevice {
    sequence?: number;
    message?: Message;
    do: "raise-device" | "lower-device" | "remove-device" | "forget-profile" | "put-back-profile";
    name: string;
  }

  /** Adds a device at the end of the table; `text` as after `HETERO:`. */
  interface AddDevice {
    sequence?: number;
    message?: Message;
    do: "add-device";
    text: string;
  }

  /** Sets a field of the Devices tab; a text, a list of ops, or null where it is empty. */
  interface DeviceField {
    sequence?: number;
    message?: Message;
    do: "device-field";
    /** Of the device when the page was last told. */
    name: string;
    /** Its place in the table, where it has been renamed since. */
    device: number;
    field: string;
    value: string | string[] | null;
  }

  /** Another order of the devices. */
  interface Order {
    sequence?: number;
    message?: Message;
    do: "order";
    names: string[];
  }

  /** Replaces all rules. */
  interface Rules {
    sequence?: number;
    message?: Message;
    do: "rules";
    rules: Record<string, unknown>[];
  }

  /** Goes to a step of the history. */
  interface Step {
    sequence?: number;
    message?: Message;
    do: "step";
    step: number;
  }

  /** Makes a layout the plan, selects where it differs, or takes a candidate of a tuning. */
  interface Layout {
    sequence?: number;
    message?: Message;
    do: "use-layout" | "show-layout" | "adopt";
    name: string;
  }

  /** Removes all pins, walks in the history, or only shows the plan again. */
  interface Simple {
    sequence?: number;
    message?: Message;
    do: "reset" | "undo" | "redo" | "show";
  }

  type Stroke =
    | Paint
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
    | Simple;

  /** All strokes of a page that the server has not confirmed yet, oldest first. */
  interface Strokes {
    page: string;
    seen: number;
    strokes: Record<string, unknown>[];
  }

  /** The last stroke of a page that was applied. */
  interface Confirmed {
    page: string;
    sequence: number;
    problem: string;
  }

  /** What a page asks for every second. */
  interface Standing {
    version: number;
    problem: string;
    working: Working | null;
  }

  /** Long work: `done` of `total` steps, or of 0 where they are not counted. */
  interface Working {
    words: string;
    done: number;
    total: number;
    canEnd: boolean;
  }

  /** How much of the graph is drawn; `open` are numbers of open blocks. */
  interface Detail {
    mode: string;
    open: number[];
  }

  /** Every op, blocks or subgraphs. */
  interface ModeRequest {
    sequence?: number;
    do: "mode";
    mode: string;
  }

  /** Opens blocks. */
  interface OpenBlocksRequest {
    sequence?: number;
    do: "open";
    units: number[];
  }

  /** Closes an open block, or the innermost one around each op. */
  interface CloseBlocksRequest {
    sequence?: number;
    do: "close";
    ops: number[];
    scope?: number;
  }

  /** Opens all blocks one level deeper, or closes all. */
  interface LevelRequest {
    sequence?: number;
    do: "level";
    deeper: boolean;
  }

  /** Back to what was drawn before the page was loaded again. */
  interface RestoreRequest {
    sequence?: number;
    do: "restore";
    detail: Detail;
  }

  /** Opens the blocks around an op and selects it; `close` are blocks that were open for the op before. */
  interface RevealRequest {
    sequence?: number;
    do: "reveal";
    op: number;
    close: number[];
  }

  /** Goes to an op by name, type or tensor; `skip` matches come before it. */
  interface FindRequest {
    sequence?: number;
    do: "find";
    text: string;
    skip: number;
  }

  type DetailRequest =
    | ModeRequest
    | OpenBlocksRequest
    | CloseBlocksRequest
    | LevelRequest
    | RestoreRequest
    | RevealRequest
    | FindRequest;

  /** Ops that are selected. The server sends one with `select` so that the page selects them. */
  interface Selection {
    ops: number[];
    tensor?: number;
    select?: boolean;
    count?: boolean;
    reveal?: boolean;
    message?: string;
    missing?: boolean;
  }

  /** What the pointer rests on: the ops of a node, or [producer, consumer] pairs of an edge. */
  interface HoverRequest {
    ops: number[];
    pairs: number[][];
    number: number;
  }

  /** What stands in the search field. */
  interface SearchRequest {
    text: string;
    number: number;
  }

  /** A result; `ops` are ranges as of a block. */
  interface SearchRow {
    kind: string;
    title: string;
    detail: string;
    ops: string;
  }

  /** Results for a text: the best ones, all ops as ranges, and what the text may become. */
  interface SearchResults {
    number: number;
    rows: SearchRow[];
    ops: string;
    completions: string[];
    problem: string;
  }

  /** Layouts to draw side by side, to put into a report, or to forget. */
  interface LayoutNames {
    names: string[];
    sequence: number;
  }

  /** One layout: `device` is uint8 and `part` uint32 per visible op, base64. */
  interface Pane {
    name: string;
    summary: string;
    device: string;
    part: string;
  }

  /** Colours and a short name. */
  interface PaneDevice {
    fill: string;
    ink: string;
    short: string;
  }

  /** Layouts side by side. */
  interface Panes {
    layouts: Pane[];
    devices: PaneDevice[];
  }

  /** The whole model as packed arrays, see `drawing.map`. */
  interface MapData {
    count: number;
    width: number;
    height: number;
    x: string;
    y: string;
    source: string;
    target: string;
    types: string[];
    type: string;
  }

  /** A fill, and the colour of text on it. */
  interface Colour {
    fill: string;
    ink: string;
  }

  /** A device of the table. */
  interface ViewDevice {
    fill: string;
    ink: string;
    name: string;
    planned: boolean;
    levels: Record<string, string>;
  }

  /** The ends of a colour scale in words. */
  interface Scale {
    low: string;
    high: string;
    what: string;
  }

  /** Of the colour modes that have one. */
  interface Scales {
    heat: Scale;
    weight: Scale;
  }

  /** One subgraph of a run; `ops` are ranges as of a block. */
  interface RibbonPart {
    part: number;
    device: number;
    ops: string;
    seconds: number;
    bytes: number;
    /** Bytes that other devices send to it; 0 for none. */
    moved: number;
  }

  /** A run from its first subgraph to its last. `kind` and `source` say what its times are. */
  interface Ribbon {
    parts: RibbonPart[];
    kind: string;
    source: string;
    measured: boolean;
    /** Ops that are not on the device that was wanted; only counted where all are on one device, else 0. */
    fallbacks: number;
  }

  /** A kind of pattern. */
  interface RuleKind {
    kind: string;
    label: string;
    example: string;
  }

  /** The rules with their match counts, kinds of patterns, and what a rule can name. */
  interface RulesData {
    rules: Record<string, unknown>[];
    kinds: RuleKind[];
    targets: string[];
  }

  /** The plan as the page draws it. Lists per op are in the order of `ops`. */
  interface View {
    document: string;
    version: number;
    ops: number[];
    device: number[];
    part: number[];
    pin: number[];
    devices: ViewDevice[];
    palette: Colour[];
    partColour: number[];
    heat: number[];
    weight: number[];
    scales: Scales;
    policy: string;
    costs: string;
    codegen: string;
    grouping: string;
    rules: RulesData;
    step: string;
    undo: boolean;
    redo: boolean;
    /** The first op behind the first change of device, in the order of a run; -1 where there is none. */
    change: number;
  }

  /** An op, a graph input or output, or a closed block. */
  interface NodeData {
    id: string;
    label: string;
    name: string;
    find: string;
    op?: number;
    ops?: string;
    unit?: number;
    far?: string;
    tensor?: number;
  }

  /** The border around an open block. */
  interface FrameData {
    id: string;
    label: string;
    find: string;
    scope: number;
    op: number;
    ops: string;
    w: number;
    h: number;
    room: number;
    beside: number;
  }

  /** What flows from one node to another. */
  interface EdgeData {
    id: string;
    source: string;
    target: string;
    bytes: number;
    pairs?: number[][];
    weights?: string;
    distances?: string;
  }

  /** The middle of a node. */
  interface Position {
    x: number;
    y: number;
  }

  /** An op, a graph input or output, or a closed block, as Cytoscape takes it. */
  interface Node {
    data: NodeData;
    classes: string;
    position: Position;
  }

  /** The border around an open block. */
  interface Frame {
    data: FrameData;
    classes: string;
    position: Position;
    pannable: boolean;
    selectable: boolean;
  }

  /** An edge as Cytoscape takes it. */
  interface Edge {
    data: EdgeData;
    classes: string;
  }

  /** An element as Cytoscape takes it. */
  type Element = Node | Frame | Edge;
}
