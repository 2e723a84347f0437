/* What the scripts in `assets/` share: the state of the page, the functions of `window.hetero`, and what Dash puts there. */

type Cy = import("cytoscape").Core;
type CyNode = import("cytoscape").NodeSingular;
type CyNodes = import("cytoscape").NodeCollection;
type CyEvent = import("cytoscape").EventObject;
type CyEdge = import("cytoscape").EdgeSingular;
type CyEdges = import("cytoscape").EdgeCollection;
type Point = import("cytoscape").Position;

/** A rectangle in model coordinates. */
interface Bounds {
  x1: number;
  x2: number;
  y1: number;
  y2: number;
}

/** Where the graph is looked at. */
interface Viewport {
  zoom: number;
  pan: Point;
}

/** What is in the middle of the view, in the graph's own coordinates, or whether it is all of the graph. */
interface Place {
  zoom: number;
  x: number;
  y: number;
  whole?: boolean;
}

/** From how far a graph is seen: far out, nodes have one line; farther out, that is larger. */
interface Far {
  far: boolean;
  farther: boolean;
}

/** How an op is drawn on a canvas; `faint` ops are hardly seen. */
interface Look {
  fill: string;
  ink: string;
  faint?: boolean;
}

/** One thing that a person can do: by key, in the palette, in the context menu; listed in the help sheet. */
interface Command {
  id: string;
  words: string;
  /** As `keyOf` names them, e.g. "Ctrl+Z". */
  keys?: string[];
  /** What the help sheet says instead of the keys. */
  shown?: string;
  /** "graph": the keys count only with the graph in focus; "everywhere": in fields, too, where the browser would do something else. */
  where?: "graph" | "everywhere";
  /** Where the context menu offers it. */
  menu?: "selection" | "block" | "ground";
  /** A colour in front of the words. */
  swatch?: string;
  /** Not in the palette. */
  hidden?: boolean;
  /** Missing for gestures, which are in the help sheet only. */
  run?(): void;
  /** Asked by the context menu. */
  when?(): boolean;
}

/** What all scripts know of the page. */
interface PageState {
  /** Missing until the graph is drawn; what only runs with a graph may rely on it. */
  cy: Cy;
  /** "select", "unpin", or the number of a device. */
  brush: string;
  region?: string | null;
  /** The first ops of the tool "between". */
  first?: number[] | null;
  /** Missing until the plan has come. */
  view: Messages.View;
  /** By op, its place in the lists of the view. */
  index: { get(op: number): number; has(op: number): boolean };
  /** Selecting is done by a script, not by a person. */
  quiet?: boolean;
  sequence: number;
  colourMode: string;
  detail: Messages.DetailShown | null | undefined;
  /** The ops that a command chose; null when a person clicked. */
  chosen?: number[] | null;
  selected: number[];
  boxing?: boolean;
  /** The ops that stand out; null where all do. */
  emphasis: Set<number> | null;
  /** From how far the graph is seen. */
  far: Far;
  /** The node under the pointer. */
  under?: CyNode | null;
  groupOf?: Map<number, string> | null;
  /** An op that is brought into view once it is drawn. */
  wanted: number | undefined;
  /** Blocks that are open only to show an op that was gone to, and what was open before; they close when the next is gone to. */
  shown: { blocks: number[]; before: number[] | null };
  matchNumber: number;
  lastFind: string | undefined;
  /** The viewport to return to when new elements came. */
  hold?: Viewport | null;
  /** What stays where it was on the screen when new elements came. */
  keep?: { ops: Set<number>; at: Point } | null;
  fitNext?: boolean;
  /** Where the page was looked at before it was loaded again. */
  back?: Place | null;
  editor: HTMLElement | null;
  messageUntil: number;
  hovered?: CyNode | CyEdge | null;
  hoverPlace: string;
}

/** A layout of a comparison with its arrays unpacked, in the order of `ops`. */
interface PaneLayout {
  name: string;
  summary: string;
  document: string;
  ops: number[];
  /** Type and name of each op. */
  named: string[][];
  device: Uint8Array;
  part: Uint32Array;
  /** Of each subgraph its place in the palette. */
  partColour: number[];
  /** Of another model: what each op is there. */
  state?: Uint8Array;
  twins?: Int32Array;
  changes?: Record<string, string>;
}

/** One pane of a comparison; see `pane_graph.js`. */
interface PaneGraph {
  take(layout: PaneLayout, devices: Messages.PaneDevice[]): void;
  readonly layout: PaneLayout;
  readonly cy: Cy;
  /** Nodes, and the places of their ops that differ. */
  readonly differing: Map<string, number[]>;
  draw(elements: GraphElement[], signOf: (place: number) => string, colourMode: string): void;
  /** In the colours of the page, light or dark. */
  restyle(): void;
  placesOf(node: CyNode): number[];
  nodeOf(place: number): CyNode;
  mark(places: number[]): void;
  fade(only: boolean): void;
  look(focus?: CyNode): void;
  bring(node: CyNode, zoom?: number): void;
}

/** The comparison side by side. */
interface PanesState {
  graphs: PaneGraph[];
  /** Missing until a comparison was asked for. */
  data: { layouts: PaneLayout[]; devices: Messages.PaneDevice[] };
  /** Asks for the data again. */
  ask?: () => Promise<PanesState["data"]>;
  /** By document. */
  drawn: Map<string, Messages.Drawing>;
  mode: string;
  only: boolean;
  /** The line of a swipe, as a share of the width. */
  split: number;
  timer?: number;
  moving: boolean;
  at?: number;
  regions?: { side: number; places: number[] }[];
  /** The op that two models keep at the same place. */
  anchor?: number;
  anchorSide: number;
}

/** A row of the table of subgraphs or of transfers, as far as scripts read it. */
interface TableRow {
  id: string;
  tensor: string;
  source_op: number;
  target_ops: number[];
}

interface GridRow {
  data: TableRow;
  isSelected(): boolean;
  setSelected(on: boolean, alone: boolean): void;
}

interface GridApi {
  deselectAll(): void;
  getRowNode(id: string): GridRow | undefined;
  ensureNodeVisible(row: GridRow): void;
  getColumnState(): ColumnState[];
  applyColumnState(how: { state: (ColumnState & { flex: null })[]; applyOrder: boolean }): void;
  resetColumnState(): void;
  sizeColumnsToFit(): void;
  getColumns(): { getColId(): string; getColDef(): { headerName: string }; isVisible(): boolean }[];
  setColumnsVisible(columns: string[], visible: boolean): void;
}

/** What is remembered of a column of a table. */
interface ColumnState {
  colId: string;
  width: number;
  hide: boolean;
}

/** A rule as it is drawn: a pattern per kind, which of the matches, and where to. */
type RuleRow = Record<string, string> & { count?: number };

/** The panels whose sizes can be changed. */
type PanelName = "tools" | "inspector" | "dock";

type Edit = Messages.Edits["edits"][number];
type DrawingChange = NonNullable<Messages.DrawingRequest["change"]>;
type GraphElement = NonNullable<Messages.Drawing["elements"]>[number];

/** An edit that the server has not confirmed. */
interface Waiting {
  edit: Edit & { sequence: number };
  then?: () => void;
}

/** The edits of one document that the server has not confirmed. */
interface EditQueue {
  waiting: Waiting[];
  /** The request that is on its way. */
  sending: AbortController | null;
  retryAfter: number;
  retry: number;
  /** The version of the plan that the page showed last. */
  seen: number;
}

interface AskOptions {
  document?: string;
  signal?: AbortSignal;
}

/** Requests about a document: its own, unless another is named. */
interface Ask {
  (what: "edits", body: Messages.Edits, options?: AskOptions): Promise<Messages.EditsAnswer>;
  (what: "drawing", body: Messages.DrawingRequest, options?: AskOptions): Promise<Messages.Drawing>;
  (what: "ribbon"): Promise<Messages.Ribbon>;
  (what: "map"): Promise<Messages.MapData>;
  (what: "status", body: null, options?: AskOptions): Promise<Messages.Status>;
  (what: `hover?${string}` | `body?${string}`): Promise<Messages.Hover>;
  (what: `context?${string}` | "prompt"): Promise<Messages.ContextNote>;
  (what: `search?${string}`): Promise<Messages.SearchResults>;
  (what: `pattern?${string}`): Promise<Messages.PatternMatches>;
  (what: `panes?${string}`): Promise<Messages.Panes>;
  (what: `versions?${string}`): Promise<Messages.Versions>;
  (what: "runs", body: Messages.RunRequest): Promise<Messages.Run>;
  (what: "runs/calibrate", body: object): Promise<Messages.Calibrated>;
  (what: "runs/cancel" | "cancel", body: object): Promise<null>;
}

interface Hetero {
  page: PageState;
  PaneGraph: new (box: HTMLElement, layout: PaneLayout, devices: Messages.PaneDevice[]) => PaneGraph;

  /** Adds functions to this object. */
  provide(functions: Partial<Hetero>): void;
  /** Adds functions that Dash calls. */
  callbacks(functions: Record<string, (...values: never[]) => unknown>): void;
  /** Sets properties of a component of Dash. */
  set(id: string | Record<string, string>, props: Record<string, unknown>): void;
  byId(id: string): HTMLElement | null;
  /** An element that is there: by selector, in another one or in the page. */
  one<T extends HTMLElement = HTMLElement>(selector: string, root?: ParentNode): T;
  all(selector: string, root?: ParentNode): HTMLElement[];
  /** The element that an event is about. */
  targetOf(event: Event): HTMLElement;
  /** A new element with properties, data attributes and children. */
  make<T extends keyof HTMLElementTagNameMap>(
    type: T,
    properties?: Partial<Omit<HTMLElementTagNameMap[T], "style">> & { style?: string; data?: Record<string, string> },
    ...children: (Node | string)[]
  ): HTMLElementTagNameMap[T];
  /** A spot of a colour, in front of what has it. */
  swatch(colour: string): HTMLElement;
  /** The element of a selector that an event is within. */
  around(event: Event, selector: string): HTMLElement | null;
  /** Calls a function for events within an element of a selector, now and later. */
  on<K extends keyof DocumentEventMap, T extends HTMLElement = HTMLElement>(
    type: K,
    selector: string,
    then: (element: T, event: DocumentEventMap[K]) => void,
  ): void;
  /** The same before what is within the document hears of them. */
  onCapture: Hetero["on"];
  /** What the browser keeps under a key; null where it keeps nothing. */
  // biome-ignore lint/suspicious/noExplicitAny: whatever was kept
  kept(key: string, storage?: "localStorage" | "sessionStorage"): any;
  keep(key: string, value: unknown, storage?: "localStorage" | "sessionStorage"): void;
  /** Marks one item of a list that is chosen from with the keys of a field. */
  highlight(list: Element, field: Element | null, chosen: number): void;
  /** The item that one of two keys, Home or End goes to from another; after the last one is the first. */
  walked<T>(key: string, keys: [back: string, on: string], items: T[], now: number): T | undefined;
  /** Places a card beside a node or an edge, within a width and a height; `from` is where the graph begins. */
  placeBeside(
    card: HTMLElement,
    target: CyNode | CyEdge,
    from: [left: number, top: number],
    width: number,
    height: number,
  ): void;
  short(text: string, length: number): string;
  /** A whole number with commas between thousands. */
  grouped(number: number): string;
  /** "1 op", "2 ops"; or of another noun. */
  counted(number: number, noun?: string): string;
  flash(element: HTMLElement | null): void;
  gridApi(id: string): GridApi | null;
  /** An array of numbers from its bytes in base64. */
  decode<T>(text: string, type: new (buffer: ArrayBuffer) => T): T;

  commands(): Command[];
  commandsFor(text: string): Command[];
  commandOf(id: string): Command | undefined;
  commandForKey(key: string): Command | undefined;
  keysOf(command: Command): string;
  toggleHelp(on?: boolean): boolean;
  closeNotice(): void;
  closeWeights(): void;
  openPalette(): void;
  openContextMenu(event: CyEvent | null): void;
  closeContextMenu(): boolean;

  /** A request to any address of the server; an answer that is an error is one here, with `status`. */
  request(address: string, options?: RequestInit): Promise<Response>;
  ask: Ask;
  /** The reason in the server's answer to what it refused; another text where it gives none. */
  reasonIn(text: string, otherwise: string): string;
  /** Fetches a file of the server's for the person to keep, and has its name. */
  download(address: string): Promise<string>;
  /** Gives the person a file of this name, and returns the name. */
  save(blob: Blob, name: string): string;
  /** One of the page's own components, as Dash takes it. */
  component(type: string, props: object): unknown;
  /** Says over the graph what went wrong. */
  complain(error: unknown): void;
  /** Says over the graph what was done. */
  tell(text: string): void;
  /** Does an edit; `then` is called once the server has done it. */
  edit(what: Edit, then?: () => void): void;
  /** How many edits of this document the server has not confirmed. */
  waitingEdits(): number;
  resend(): void;
  /** Forgets the edits that wait. */
  dropWaiting(): void;
  /** The plan, or what its figures go by, is another one. */
  planChanged(): void;
  apply(view: Messages.View): void;
  /** Follows the benchmark of this document, if there is one. */
  followRun(): void;
  /** Stores the watts that stand beside a button, and does the edit that lacked them. */
  stateWatts(asked: Edit, button: HTMLButtonElement): void;
  /** Starts a measurement with these options, which the fields then show. */
  measure(request: Messages.RunRequest): void;
  /** Whether the server answered the last question. */
  reachable(): boolean;
  /** Says why edits wait; "" when they do not. */
  showUnstored(problem: string): void;
  showWork(now: Messages.Progress | null): void;
  painting(): boolean;
  device(): number | null;
  paint(ops: number[], target: number | null, force?: boolean): void;
  paintOrUnpin(ops: number[]): void;
  tapOp(node: CyNode): void;
  tapFrame(event: CyEvent): void;
  endBox(): void;
  say(text: string): void;
  grow(how: Messages.Grow["how"]): void;
  setBrush(name: string): void;
  setRegion(name: string): void;
  showMode(): void;

  /** Changes what is drawn; null draws the same again. */
  askDetail(what: DrawingChange | null): void;
  reveal(op: number): void;
  keepOpen(): void;
  openTapped(node: CyNode): void;
  openByKey(): void;
  /** Shows a body of an op by its number in the model. */
  openBody(number: number): void;
  close(nodes: CyNode[]): void;
  closeFrame(frame: CyNode): void;

  lookOf(view: Messages.View, place: number, mode?: string): [Messages.Colour, string];
  legend(): void;
  /** The legend of the dashed lines that are drawn. */
  lines(cy: Cy): void;
  /** The looks of a plan on what Cytoscape holds. */
  colour(cy: Cy, view: Messages.View, fades?: boolean): void;
  /** Nodes as they look from so far. */
  showFrom(nodes: CyNodes, far: Far): void;
  /** The same on elements that Cytoscape has not seen. */
  dress(elements: GraphElement[], view: Messages.View, mode?: string): void;
  hold(): void;
  centre(): Point;
  zoom(factor: number): void;
  /** The view in which a box is as large as it can be, clear of the cards. */
  wholeOf(box: Bounds, largest?: number): Viewport;
  placeOf(cy: Cy): Place;
  lookAt(cy: Cy, place: Place): void;
  bring(box: Bounds): void;
  signs(devices: number[]): string;
  zoomToSelection(): void;
  fit(): void;
  settle(cy: Cy): boolean;
  comeBack(): void;
  step(key: string): void;

  hoverOver(target: CyNode | CyEdge): void;
  hoverMoved(): void;
  hoverOut(): void;

  toggleMap(): void;
  openPanes(): void;
  openVersions(other: string): void;
  downloadComparison(): void;
  closePanes(): boolean;
  takeAlong(path: string): void;
  tickPane(button: HTMLElement): void;
  panesFollow(): Promise<void>;
  panesRestyle(): void;
  setPanesMode(mode: string): void;
  onlyDifferences(button: HTMLElement): void;
  nextDifference(step: number): void;
  fitPanes(): void;

  /** Downloads a picture: "png" and "svg" of the view, "png whole" and "svg whole" of the graph. */
  picture(what: string): void;
  /** Writes shapes on the edges in sight, once the view rests. */
  labelEdges(cy: Cy): void;
  /** Those of some edges that have a shape written on them. */
  shapedEdges(edges: CyEdges): CyEdges;
  toggleShapes(): void;
  wayOf(edge: CyEdge): Point[];
  pointAlong(way: Point[], far: number): (Point & { flat: boolean }) | null;
  /** The id of a component as its element has it. */
  idOf(id: Controls.Id | undefined): string | undefined;
  icon(name: string | undefined): unknown;
  /** Names of classes, those that are there. */
  classes(...names: (string | false | undefined)[]): string;
  /** A page's components have come. */
  expectGraph(shown: Shown): void;
  /** Puts the first page into Dash's layout, where it has come. */
  placeFirstPage(layout: { props: { children: { props: { id: string; children?: unknown; data?: unknown } }[] } }): void;
  /** Panels have been made: scripts draw into them. */
  panelsShown(): void;
  drawRules(data: Messages.RulesData): void;
  rulesButton(what: string, pressed: HTMLElement): void;
  ruleOps(pressed: HTMLElement): void;
  /** What a pattern of a rule matches. */
  patternMatches(kind: string, text: string): Promise<Messages.PatternMatches>;

  /** Ops that are written as ranges: "3-5 9". */
  opsIn(text: string): number[];
  /** Ops as ranges of a query: "3-5,9". */
  rangesOf(ops: number[]): string;
  /** Goes to the next (1) or previous (-1) change of device in the order of a run. */
  stepChange(step: number): void;
  showRibbon(data: Messages.Ribbon): void;
  drawRibbon(): void;
  /** Lets some ops stand out, or none in particular. */
  emphasise(ops: number[] | null): void;
  /** Selects ops and says how many they are; the view moves to them where they are to be revealed. */
  selectOps(ops: number[], reveal?: boolean): void;
  selectDevice(device: number): void;
  togglePanel(name: PanelName): void;
  compareIfPast(): void;
  /** Does something about the ops that fell back: selects them, or makes a rule. */
  fallback(what: string, value: string): void;
  humanSeconds(seconds: number, rough?: boolean): string;
  humanBytes(bytes: number): string;
  /** A share: "42 %". */
  percent(share: number): string;
  reselect(): void;
  selectNothing(): void;
  showPart(part: number): void;
  opId(id: string): number;
  opsOf(node: CyNode): number[];
  nodesOf(ops: number[]): CyNodes;
  selectedOps(): number[];
  showRow(ops: number[]): void;
  reportSelection(): void;
  choose(selection: Messages.Selection): void;
  unmark(): void;
  /** Shows an op that was looked for, once it is drawn. */
  arrive(op: number): void;
  bringOp(op: number, stay?: boolean): void;
  goTo(id: string, stay?: boolean): void;
  find(text: string, next: boolean): void;
  /** A key in the search field; whether that was all there is to do. */
  searchKey(event: KeyboardEvent): boolean;

  labelFields(): void;
  remember(what: Remembered): void;
  recall(): void;
  undo(): void;
  redo(): void;
  showUndo(): void;
  restorePanels(): void;
  toggleScheme(): void;
  openLink(): void;
  wakeOnRedraw(cy: Cy): void;
  showLink(ops: number[]): void;
  copy(text: string, message?: string): void;
  copyLink(): void;
}

/** The page has no elements but HTML and the pictures in it. */
interface Element {
  closest<K extends keyof HTMLElementTagNameMap>(selectors: K): HTMLElementTagNameMap[K] | null;
  closest(selectors: string): HTMLElement | null;
}

interface ParentNode {
  querySelector<K extends keyof HTMLElementTagNameMap>(selectors: K): HTMLElementTagNameMap[K] | null;
  querySelector<K extends keyof SVGElementTagNameMap>(selectors: K): SVGElementTagNameMap[K] | null;
  querySelector(selectors: string): HTMLElement | null;
  querySelectorAll<K extends keyof HTMLElementTagNameMap>(selectors: K): NodeListOf<HTMLElementTagNameMap[K]>;
  querySelectorAll(selectors: string): NodeListOf<HTMLElement>;
}

/** A component as Dash describes it. */
interface Shown {
  props?: { children?: unknown };
}

/** How a document was looked at, kept for the session of the browser. */
interface Remembered {
  detail?: Messages.DetailShown;
  view?: Place;
  colour?: string;
  tab?: string;
  /** The model at other sizes, from which a person came, and the step then. */
  cameFrom?: { href: string; words: string | null; step: string };
  /** The model at other sizes, from which undo led back, and the step then. */
  wentTo?: { href: string; words?: string; step?: string };
}

/** `window.hetero`: the server puts each script into a function with this parameter (`scoped` of `editor/web/page_files.py`). */
declare const editor: Hetero;
/** Its state, in the same way. */
declare const page: PageState;

interface Window {
  hetero: Hetero;
  heteroCy: Cy;
  heteroMap: { draw(): void; look(op: number): Look; ready: boolean; count: number | undefined };
  heteroPanes: PanesState;
  heteroColours: Record<string, string>;
  heteroFirstPage?: { path: string; page: Shown | null; ready: Promise<void> };
  heteroPageAddress(path: string): string;
  heteroScripts(name: "after-graph" | "tables"): Promise<unknown>;
  /** The graph is on the screen: what waited for it may come. */
  heteroGraphShown(): void;
  heteroFar(zoom: number): Far;
  heteroFree(width: number, height: number): { left: number; top: number; width: number; height: number };
  heteroWhole(box: Bounds, width: number, height: number, largest?: number): Viewport;
  heteroFirstView(box: Bounds, width: number, height: number, first: number, focus: Point | null): Viewport;
  dash_clientside: {
    no_update: unknown;
    set_props(id: string | Record<string, string>, props: Record<string, unknown>): void;
    callback_context: { triggered: { prop_id: string; value?: unknown }[] };
    hetero: Record<string, unknown>;
  };
  dash_component_api: { stringifyId(id: Controls.Id): string };
  hetero_controls: Record<string, (props: never) => unknown>;
  dash_core_components?: Record<string, unknown>;
  dash_cytoscape?: { Cytoscape: { defaultProps: { wheelSensitivity?: number } } };
  dash_ag_grid: { AgGrid(props: never): unknown; getApi(id: string): GridApi };
  // biome-ignore lint/suspicious/noExplicitAny: the tables call them with whatever they show
  dashAgGridFunctions: Record<string, (value: any, second?: any) => unknown>;
  dashAgGridComponentFunctions: Record<string, (props: { value: string }) => unknown>;
}

/** Properties of an element; what it tells of comes from fields and buttons. */
type ElementProps = Record<string, unknown> & {
  onChange?(event: { target: HTMLInputElement; nativeEvent: InputEvent }): void;
  onClick?(event: MouseEvent & { target: HTMLElement }): void;
  onKeyDown?(event: KeyboardEvent): void;
};

/** Of Dash: a small part of React. */
declare const React: {
  // biome-ignore lint/suspicious/noExplicitAny: components of any properties
  createElement(type: string | ((props: any) => unknown), props: ElementProps, ...children: unknown[]): unknown;
  Fragment: (props: object) => unknown;
  useState<T>(first: T): [T, (next: T) => undefined];
  useRef<T>(first: T): { current: T };
  useEffect(run: () => undefined | (() => void), after: unknown[]): void;
};
