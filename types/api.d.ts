/* Made by `make types` from editor/web/messages.py. */

/**
 * The kind of a time, rate or ratio; as ``kind`` in every JSON.
 */
export type Kind = "estimate" | "prediction" | "measurement";
/**
 * Adds a device at the end of the table; ``text`` as after `HETERO:`.
 */
export interface AddDevice {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "add-device";
  text: string;
}
/**
 * A text over the graph.
 */
export interface Message {
  text: string;
  bad?: boolean;
}
/**
 * Sets the policy, the rule for subgraphs, the source of costs and the choice of codegens.
 */
export interface Automatic {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "automatic";
  policy: string;
  grouping: string;
  costs: string;
  codegen: string;
}
/**
 * The kind of a number, and its source.
 */
export interface Basis {
  kind: Kind;
  source: string;
  detail?: string;
  noisy?: boolean;
}
/**
 * Chooses everything on paths from ``first`` to ``ops``.
 */
export interface Between {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  ops: number[];
  device?: number | null;
  unpin?: boolean;
  do: "between";
  first: number[];
}
/**
 * What a calibration did.
 */
export interface Calibrated {
  text: string;
}
/**
 * Opens all blocks one level deeper, or closes all.
 */
export interface ChangeLevel {
  do: "level";
  deeper: boolean;
}
/**
 * Forgets the profile of a device, or puts the one before it back.
 */
export interface ChangeProfile {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "forget-profile" | "put-back-profile";
  name: string;
}
/**
 * Closes an open block, or the innermost one around each op.
 */
export interface CloseBlocks {
  do: "close";
  ops: number[];
  scope?: number | null;
}
/**
 * A fill, and the colour of text on it.
 */
export interface Colour {
  fill: string;
  ink: string;
}
/**
 * Whether a plan fits at a context, in words.
 */
export interface ContextNote {
  said: string;
  look: string;
}
/**
 * How much of the graph is drawn; ``open`` are numbers of open blocks.
 */
export interface Detail {
  mode: "ops" | "blocks" | "subgraphs";
  open?: number[];
}
/**
 * How much of the graph is drawn.
 */
export interface DetailShown {
  mode: "ops" | "blocks" | "subgraphs";
  open: number[];
}
/**
 * Sets a field of a device.
 */
export interface DeviceField {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "device-field";
  /**
   * Of the device when the page was last told.
   */
  name: string;
  /**
   * Its place in the table, where it has been renamed since.
   */
  device: number;
  field: string;
  /**
   * A text, a list of ops, or null where the field is empty.
   */
  value: string | string[] | null;
}
/**
 * Draws every op, blocks or subgraphs.
 */
export interface DrawMode {
  do: "mode";
  mode: "ops" | "blocks" | "subgraphs";
}
/**
 * What is drawn after a change; ``elements`` is null where they stay as they are.
 */
export interface Drawing {
  detail: DetailShown;
  elements: (Node | Frame | Edge)[] | null;
  selection: Selection | null;
}
/**
 * An op, a graph input or output, or a closed block, as Cytoscape takes it.
 */
export interface Node {
  data: NodeData;
  classes: string;
  position: Position;
}
/**
 * An op, a graph input or output, or a closed block.
 */
export interface NodeData {
  id: string;
  label: string;
  name: string;
  find: string;
  op?: number;
  ops?: string;
  unit?: number;
  far?: string;
  tensor?: number;
  tensors?: number[];
  body?: number;
}
/**
 * The middle of a node.
 */
export interface Position {
  x: number;
  y: number;
}
/**
 * The border around an open block.
 */
export interface Frame {
  data: FrameData;
  classes: string;
  position: Position;
  pannable: boolean;
  selectable: boolean;
}
/**
 * The border around an open block.
 */
export interface FrameData {
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
/**
 * An edge as Cytoscape takes it.
 */
export interface Edge {
  data: EdgeData;
  classes: string;
}
/**
 * What flows from one node to another.
 */
export interface EdgeData {
  id: string;
  source: string;
  target: string;
  bytes: number;
  shape: string;
  sizes?: number[];
  pairs?: number[][];
  states?: string[][];
  weights?: string;
  distances?: string;
}
/**
 * Ops that are selected.
 */
export interface Selection {
  ops: number[];
  tensors?: number[];
  select?: boolean;
  count?: boolean;
  reveal?: boolean;
  message?: string;
  missing?: boolean;
  weights?: boolean;
}
/**
 * What is drawn, or null for what a document opens with, and what to change of it; the server keeps neither.
 */
export interface DrawingRequest {
  detail: Detail | null;
  change?: (DrawMode | OpenBlocks | CloseBlocks | ChangeLevel | Restore | Reveal | Find) | null;
}
/**
 * Opens blocks.
 */
export interface OpenBlocks {
  do: "open";
  units: number[];
}
/**
 * Draws what was drawn before the page was loaded again.
 */
export interface Restore {
  do: "restore";
  detail: Detail;
}
/**
 * Opens the blocks around an op and selects it; ``close`` are blocks that were open for the op before.
 */
export interface Reveal {
  do: "reveal";
  op: number;
  close?: number[];
}
/**
 * Goes to an op by name, type or tensor; ``skip`` matches come before it.
 */
export interface Find {
  do: "find";
  text: string;
  skip?: number;
}
/**
 * The edits of a page that the server has not confirmed yet, oldest first.
 *
 * A request that is lost does no harm, because the next one repeats its edits.
 */
export interface Edits {
  page: string;
  /**
   * Version of the plan that the page showed when it sent them.
   */
  seen: number;
  edits: (
    | Paint
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
    | HistoryEdit
  )[];
}
/**
 * Pins ops to a device; with ``force`` also those that it cannot run.
 */
export interface Paint {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "paint";
  ops: number[];
  device: number;
  force?: boolean;
}
/**
 * Removes the pins of ops.
 */
export interface Unpin {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "unpin";
  ops: number[];
}
/**
 * Pins ops to a kind of device, a unit or a codegen.
 */
export interface PinToLabel {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "label";
  ops: number[];
  label: string;
}
/**
 * Chooses the connected ops of one device.
 */
export interface Region {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  ops: number[];
  device?: number | null;
  unpin?: boolean;
  do: "region";
}
/**
 * Chooses what belongs to some ops; ``how`` as in `Document.expand_selection`.
 */
export interface Grow {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  ops: number[];
  device?: number | null;
  unpin?: boolean;
  do: "grow";
  how: "type" | "alike" | "block" | "subgraph" | "upstream" | "downstream" | "neighbours";
}
/**
 * Selects the ops that an expression is true for.
 */
export interface Filter {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "filter";
  text: string;
}
/**
 * Selects the ops that a rule matches.
 */
export interface RuleOps {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "rule-ops";
  rule: number;
}
/**
 * Moves a device one place up or down in the table, or removes it.
 */
export interface MoveDevice {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "raise-device" | "lower-device" | "remove-device";
  name: string;
}
/**
 * Puts the devices into another order.
 */
export interface ReorderDevices {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "order";
  names: string[];
}
/**
 * Replaces all rules.
 */
export interface Rules {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "rules";
  rules: {
    [k: string]: unknown;
  }[];
}
/**
 * Goes to a step of the history.
 */
export interface GoToStep {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "step";
  step: number;
}
/**
 * Makes a layout the plan, selects where it differs, forgets it, or takes a candidate of a tuning or of the phases.
 */
export interface LayoutEdit {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "use-layout" | "show-layout" | "remove-layout" | "adopt" | "use-phase";
  name: string;
}
/**
 * Removes all pins, pins what a stroke moved beside the painted ops to where it was, walks in the history, or only shows
 * the plan again.
 */
export interface HistoryEdit {
  /**
   * Numbers the edits of one page, so that the server applies each once and in order; 0 for the next one.
   */
  sequence?: number;
  /**
   * Shown when the edit is done, e.g. what an imported file came to.
   */
  message?: Message | null;
  do: "reset" | "keep-others" | "undo" | "redo" | "show";
}
/**
 * What a request of edits came to.
 */
export interface EditsAnswer {
  view: View;
  figures: Figures;
  sequence: number;
  selection: Selection | null;
  message: string;
  panels: {
    [k: string]: {
      [k: string]: unknown;
    } | null;
  };
}
/**
 * The plan as the page draws it. Lists per op are in the order of ``ops``.
 */
export interface View {
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
  error: number[];
  scales: Scales;
  policy: string;
  costs: string;
  codegen: string;
  grouping: string;
  rules: RulesData;
  step: string;
  undo: boolean;
  redo: boolean;
  change: number;
}
/**
 * A device of the table.
 */
export interface ViewDevice {
  fill: string;
  ink: string;
  name: string;
  planned: boolean;
  bits: number;
  levels: {
    [k: string]: string;
  };
}
/**
 * The scales of the colour modes that have one.
 */
export interface Scales {
  heat: Scale;
  weight: Scale;
  error: Scale;
}
/**
 * The ends of a colour scale in words.
 */
export interface Scale {
  low: string;
  high: string;
  what: string;
}
/**
 * The rules with their match counts, kinds of patterns, and what a rule can name.
 */
export interface RulesData {
  rules: {
    [k: string]: unknown;
  }[];
  kinds: RuleKind[];
  targets: string[];
}
/**
 * A kind of pattern.
 */
export interface RuleKind {
  kind: string;
  label: string;
  example: string;
}
/**
 * The figures of the status bar.
 */
export interface Figures {
  ops: number;
  subgraphs: number;
  boundaries: number;
  transfers: number;
  moved: number;
  unknown: number;
  pins: number;
  context: number | null;
  predicted: number | null;
  between: number | null;
  rate: number | null;
  basis: Basis | null;
  rough: boolean;
}
/**
 * What is shown of something: the text of a tooltip, the picture of a body.
 */
export interface Hover {
  content: {
    [k: string]: unknown;
  } | null;
}
/**
 * The edit that does or shows what a file says; the page sends it, so that it is in order with its others.
 */
export interface Imported {
  edit: {
    [k: string]: unknown;
  };
}
/**
 * The whole model as packed arrays, see `map_data` of `drawing.panes`.
 */
export interface MapData {
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
/**
 * One layout: ``device`` is uint8 and ``part`` uint32 per visible op, base64; ``partColour`` as in ``View``.
 */
export interface Pane {
  name: string;
  summary: string;
  device: string;
  part: string;
  partColour: number[];
}
/**
 * Colours, a name and the ``bits`` of ``ViewDevice``.
 */
export interface PaneDevice {
  fill: string;
  ink: string;
  name: string;
  bits: number;
}
/**
 * Layouts side by side; ``ops_named`` has type and name of each visible op.
 */
export interface Panes {
  layouts: Pane[];
  devices: PaneDevice[];
  ops_named: string[][];
}
/**
 * How many ops a pattern of a rule matches, and for a scope the blocks whose paths contain it.
 */
export interface PatternMatches {
  count: number;
  blocks: RuleBlock[];
}
/**
 * A block that a rule's scope can name, by its path, and how many ops it has.
 */
export interface RuleBlock {
  path: string;
  ops: number;
}
/**
 * Long work: ``done`` of ``total`` steps, or of 0 where they are not counted.
 */
export interface Progress {
  label: string;
  done: number;
  total: number;
  cancellable: boolean;
}
/**
 * A run from its first subgraph to its last. ``kind`` and ``source`` say what its times are.
 */
export interface Ribbon {
  parts: RibbonPart[];
  kind: string;
  source: string;
  measured: boolean;
  rough: boolean;
  at: string;
  off: string;
}
/**
 * One subgraph of a run; ``ops`` are ranges as of a block.
 */
export interface RibbonPart {
  part: number;
  device: number;
  ops: string;
  seconds: number;
  bytes: number;
  moved: number;
  arrives: string;
}
/**
 * A run that was started.
 */
export interface Run {
  run: string;
}
/**
 * How far a run is: events of ``GET /d/{document}/runs/events``.
 */
export interface RunEvent {
  run: string;
  kind: string;
  done: boolean;
  text: string;
  label: string;
  share: number | null;
  samples: number;
}
/**
 * A benchmark, a profile or a tuning to start.
 */
export interface RunRequest {
  kind?: "benchmark" | "profile" | "tune" | "tokens" | "accuracy";
  /**
   * For the benchmark or the tuning in all, for the profile per device; 3 by default.
   */
  seconds?: number | string | null;
  mode?: "latency" | "throughput";
  /**
   * In flight, for throughput; 4 by default.
   */
  requests?: number | string | null;
  /**
   * Tokens of the prompt, for tokens; 64 by default.
   */
  prompt?: number | string | null;
  /**
   * Tokens to generate; 32 by default.
   */
  new?: number | string | null;
  /**
   * Whether a benchmark then measures what the plan takes.
   */
  memory?: boolean;
}
/**
 * Results for a text: the best ones, all ops as ranges, and what the text may become.
 */
export interface SearchResults {
  rows: SearchRow[];
  ops: string;
  completions: string[];
  problem: string;
}
/**
 * A result; ``ops`` are ranges as of a block.
 */
export interface SearchRow {
  kind: string;
  title: string;
  detail: string;
  ops: string;
  block: string;
}
/**
 * What a page asks for twice a second.
 */
export interface Status {
  version: number;
  problem: string;
  working: Progress | null;
}
/**
 * Where the model of an upload is.
 */
export interface Uploaded {
  path: string;
}
/**
 * One of two models: ``state`` is uint8 per visible op (0 the same in both, 1 changed, 2 only here), ``twins`` int32: the
 * place of the op in the other model, or -1; base64. ``changes`` has words for ops that changed, by their place, ``ops`` the
 * numbers of the visible ops as uint32, ``ops_named`` type and name of each.
 */
export interface VersionPane {
  name: string;
  summary: string;
  device: string;
  part: string;
  partColour: number[];
  document: string;
  ops: string;
  ops_named: string[][];
  state: string;
  twins: string;
  changes: {
    [k: string]: string;
  };
}
/**
 * Two models side by side.
 */
export interface Versions {
  layouts: VersionPane[];
  devices: PaneDevice[];
}
export as namespace Messages;
