/* Layouts side by side over the graph: two to four panes that move together, or two in one with a swipe or a blink. Two versions
   of a model are two panes with a drawing each, where an op keeps its place beside the one that it is in the other. */

const { make } = editor,
  MOST_OPS = 800, // a larger model is drawn in blocks
  SIGNS = ["", "≠", "+"], // of an op that is the same, differs, is in one model only
  MOST_MOVES = 2, // that are named
  BLINK_MS = 900;
/** @type {PanesState} */
const panes = {
  graphs: [],
  data: /** @type {PanesState["data"]} */ (/** @type {unknown} */ (null)),
  drawn: new Map(),
  mode: "side",
  only: false,
  split: 0.5,
  moving: false,
  anchorSide: 0,
};

const box = () => editor.one("#panes");

/** @param {string} text */
function note(text) {
  editor.one(".panes-note", box()).textContent = text;
}

/* The layouts whose boxes are ticked in the table of the comparison, as a query; "" where they are not two to four. */
function tickedNames() {
  const names = editor.all('[data-pane][aria-checked="true"]').map((b) => b.dataset.pane ?? "");
  if (names.length >= 2 && names.length <= 4) return `${new URLSearchParams(names.map((name) => ["name", name]))}`;
  editor.say("Tick two to four layouts in the table first.");
  return "";
}

function openPanes() {
  const names = tickedNames();
  if (names) open(async () => panesOf(await editor.ask(`panes?${names}`)));
}

/** @param {() => Promise<PanesData>} ask */
function open(ask) {
  ask()
    .then((data) => show(data, ask))
    .catch(editor.complain);
}

/** @type {Hetero["openVersions"]} */
function openVersions(other) {
  open(async () => versionsOf(await editor.ask(`versions?${new URLSearchParams({ other })}`)));
}

/** @typedef {PanesState["data"]} PanesData */

/** @param {Messages.Versions} data @returns {PanesData} */
const versionsOf = ({ layouts, devices }) => ({
  layouts: layouts.map((layout) => ({
    ...layout,
    ...unpacked(layout),
    ops: [...editor.decode(layout.ops, Uint32Array)],
    named: layout.ops_named,
    state: editor.decode(layout.state, Uint8Array),
    twins: editor.decode(layout.twins, Int32Array),
  })),
  devices,
});

/** @param {Messages.Panes} data @returns {PanesData} */
const panesOf = ({ layouts, devices, ops_named: named }) => ({
  layouts: layouts.map((each) => ({ ...each, ...unpacked(each), document: page.view.document, ops: page.view.ops, named })),
  devices,
});

/** @param {Messages.Pane} layout */
const unpacked = ({ device, part }) => ({
  device: editor.decode(device, Uint8Array),
  part: editor.decode(part, Uint32Array),
});

function downloadComparison() {
  const names = tickedNames(),
    address = `/d/${page.view.document}/comparison?${names}`;
  if (names) editor.download(address).then((name) => editor.tell(`Downloaded ${name}`), editor.complain);
}

/** @type {Set<string>} */
const ticked = new Set();

/** @type {Hetero["tickPane"]} */
function tickPane({ ariaChecked, dataset }) {
  if (ariaChecked === "true") ticked.delete(dataset.pane ?? "");
  else ticked.add(dataset.pane ?? "");
  showTicks();
}

function showTicks() {
  for (const button of editor.all("[data-pane]")) button.ariaChecked = String(ticked.has(button.dataset.pane ?? ""));
}

/* A table that is made anew has the ticks of the one before. */
function comparisonArrived() {
  setTimeout(showTicks, 0);
}

/** @param {PanesData} data @param {() => Promise<PanesData>} ask */
async function show({ layouts, devices }, ask) {
  const isLarge = layouts.some((layout) => layout.ops.length > MOST_OPS),
    mode = isLarge || page.detail?.mode === "blocks" ? "blocks" : "ops";
  closePanes();
  panes.drawn = new Map();
  for (const { document } of layouts) {
    if (panes.drawn.has(document)) continue;
    const drawing = (/** @type {Messages.DetailShown | null} */ detail) =>
      editor.ask("drawing", { detail, change: null }, { document });
    const own = document === page.view.document && page.detail,
      first = await drawing(own ? { ...own, mode } : null);
    panes.drawn.set(document, first.detail.mode === mode ? first : await drawing({ ...first.detail, mode }));
  }
  panes.data = { layouts, devices };
  panes.ask = ask;
  box().hidden = false;
  const grid = editor.one(".panes-grid", box());
  grid.replaceChildren();
  panes.graphs = layouts.map((layout, side) => pane(grid, layout, side));
  if (layouts.length === 2 && !areVersions()) grid.append(handle());
  const more = isLarge && page.detail?.mode !== "blocks" ? "; in blocks, for there are many: a double click opens one" : "";
  note(counts() + more);
  setPanesMode(layouts.length === 2 && !areVersions() ? panes.mode : "side");
  firstLook();
  refitWhileUnmoved(panes.graphs[0]);
}

/** A window of another size shows again what was shown at first, until somebody moves it. @param {PaneGraph} graph */
function refitWhileUnmoved({ cy }) {
  const view = () => JSON.stringify([cy.zoom(), cy.pan()]);
  let shown = view(),
    before = `${cy.width()} ${cy.height()}`;
  cy.on("resize", () => {
    const size = `${cy.width()} ${cy.height()}`;
    if (size === before) return;
    before = size;
    if (view() !== shown) return;
    firstLook();
    shown = view();
  });
}

/* An edit has changed the plan: the panes take its colours where they are. */
async function panesFollow() {
  const { graphs, ask } = panes;
  if (!graphs.length || !ask) return;
  const data = await ask().catch(() => null); // a layout has gone: the others stay as they are
  if (!data || panes.graphs !== graphs || data.layouts.length !== graphs.length) return;
  panes.data = data;
  graphs.forEach((graph, side) => {
    const layout = data.layouts[side],
      summary = editor.one("figcaption span", editor.all("figure", box())[side]);
    graph.take(layout, data.devices);
    draw(graph);
    summary.textContent = summary.title = layout.summary;
  });
  panes.at = panes.regions = undefined;
  note(counts());
}

const areVersions = () => Boolean(panes.data.layouts[0].twins);

/** @param {number} i @param {PaneLayout} [layout] */
const differs = (i, layout = panes.data.layouts[0]) =>
  layout.state ? layout.state[i] > 0 : panes.data.layouts.some((l) => l.device[i] !== panes.data.layouts[0].device[i]);

const partsDiffer = () => panes.data.layouts.some(({ part }) => part.some((each, i) => each !== panes.data.layouts[0].part[i]));

/* What the colours mean: devices, unless the layouts differ in subgraphs only or the page shows those. */
const colourMode = () => {
  const { ops } = panes.data.layouts[0],
    sameDevices = !areVersions() && !ops.some((_op, i) => differs(i));
  return page.colourMode === "subgraph" || (sameDevices && partsDiffer()) ? "subgraph" : "device";
};

/** @param {PaneLayout} layout */
const signsOf = (layout) => (/** @type {number} */ i) => SIGNS[layout.state ? layout.state[i] : differs(i) ? 1 : 0];

/* What an op of a pane is in another one; -1 where it is not there. */
/** @param {number} i @param {number} from @param {number} to */
const twinOf = (i, from, to) => (from === to ? i : (panes.data.layouts[from].twins?.[i] ?? i));

/** @param {HTMLElement} grid @param {PaneLayout} layout @param {number} side */
function pane(grid, layout, side) {
  const { name, summary } = layout,
    caption = make("figcaption", {}, make("b", {}, name), make("span", { title: summary }, summary)),
    graph = make("div", { className: "pane-graph", role: "img", ariaLabel: `Model coloured by ${name}` });
  grid.append(make("figure", {}, caption, graph));
  const made = new editor.PaneGraph(graph, layout, panes.data.devices),
    { cy } = made;
  draw(made);
  cy.on("viewport", () => moved(side));
  cy.on("tap", "node.op", (event) => choose(side, made.placesOf(event.target)));
  cy.on("dbltap", "node.group", ({ target }) => reopen(side, target, { do: "open", units: [target.data("unit")] }));
  cy.on("dbltap", "node.frame", ({ target }) =>
    reopen(side, target, { do: "close", scope: target.data("scope"), ops: [target.data("op")] }),
  );
  cy.on("dbltap", "node.holder", (event) => {
    if (!areVersions()) editor.openBody(event.target.data("body"));
  });
  cy.on("mouseover", "node.op, edge", ({ target }) => tell(side, target));
  cy.on("mouseout viewport tapstart", hush);
  return made;
}

/** @param {PaneGraph} graph */
function draw(graph) {
  const { layout } = graph;
  graph.draw(panes.drawn.get(layout.document)?.elements ?? [], signsOf(layout), colourMode());
  graph.fade(panes.only);
}

/* A block opens or closes in all panes of its model, and stays where it was in the one that was clicked. */
/** @param {number} side @param {CyNode} target @param {DrawingChange} change */
async function reopen(side, target, change) {
  const { document } = panes.data.layouts[side],
    drawn = panes.drawn.get(document),
    graph = panes.graphs[side];
  if (drawn?.detail.mode !== "blocks") return;
  const first = graph.placesOf(target)[0],
    was = target.renderedPosition(),
    next = await editor.ask("drawing", { detail: drawn.detail, change }, { document });
  if (!next.elements || panes.graphs[side] !== graph) return;
  panes.drawn.set(document, next);
  panes.graphs.filter((each) => each.layout.document === document).forEach(draw);
  panes.at = panes.regions = undefined;
  const now = graph.nodeOf(first).renderedPosition();
  graph.cy.panBy({ x: was.x - now.x, y: was.y - now.y });
  hush();
}

/** The other panes show the same place; of another model, the anchor is at the same place. @param {number} side */
function moved(side) {
  if (panes.moving) return;
  panes.moving = true;
  const { cy } = panes.graphs[side],
    zoom = cy.zoom();
  panes.graphs.forEach((other, to) => {
    if (to === side) return;
    const pan = areVersions() ? panBeside(side, to) : cy.pan();
    if (pan) other.cy.viewport({ zoom, pan });
  });
  panes.moving = false;
}

/** @param {number} side @param {number} to */
function panBeside(side, to) {
  const { cy } = panes.graphs[side],
    twins = panes.data.layouts[side].twins ?? new Int32Array(),
    middle = editor.placeOf(cy),
    away = (/** @type {CyNode} */ node) => Math.abs(node.position("x") - middle.x) + Math.abs(node.position("y") - middle.y);
  // The same op as long as it is seen: another one at each step would make the other model jump.
  const held = panes.anchorSide === side && panes.anchor !== undefined && twins[panes.anchor] >= 0;
  if (!held || away(panes.graphs[side].nodeOf(/** @type {number} */ (panes.anchor))) > cy.extent().w / 2) {
    let best = -1,
      least = Infinity;
    cy.nodes(".op").forEach((node) => {
      const far = away(node);
      if (far >= least) return;
      const place = panes.graphs[side].placesOf(node).find((/** @type {number} */ i) => twins[i] >= 0);
      if (place === undefined) return;
      best = place;
      least = far;
    });
    if (best < 0) return null;
    panes.anchor = best;
    panes.anchorSide = side;
  }
  const i = /** @type {number} */ (panes.anchor),
    at = panes.graphs[side].nodeOf(i).renderedPosition(),
    there = panes.graphs[to].nodeOf(twins[i]).position(),
    zoom = cy.zoom();
  return { x: at.x - there.x * zoom, y: at.y - there.y * zoom };
}

/** @param {number} side @param {number[]} places */
function choose(side, places) {
  panes.graphs.forEach((graph, to) => graph.mark(places.map((i) => twinOf(i, side, to))));
  if (areVersions()) {
    panes.anchor = places[0];
    panes.anchorSide = side;
    moved(side);
    if (places.length === 1) note(inOther(places[0], side));
  }
  const own = places.map((i) => twinOf(i, side, 0)).filter((i) => i >= 0);
  if (own.length) editor.set("selection", { data: { ops: own.map((i) => panes.data.layouts[0].ops[i]), select: true } });
}

/** What an op is in the other model. @param {number} i @param {number} side */
function inOther(i, side) {
  const layout = panes.data.layouts[side],
    words = ["the same in both", layout.changes?.[i] || "changed", `only in ${layout.name}`];
  return `${layout.named[i][0]}: ${words[layout.state?.[i] ?? 0]}`;
}

/* From which device to which, the most ops first; with more than two layouts all of theirs in order. */
/** @param {number[]} places */
function moves(places) {
  const { layouts, devices } = panes.data,
    found = /** @type {Map<string, number>} */ (new Map());
  for (const i of places) {
    const way = layouts.map((l) => devices[l.device[i]].name).join(" → ");
    found.set(way, (found.get(way) ?? 0) + 1);
  }
  const all = [...found].sort((a, b) => b[1] - a[1]);
  if (all.length === 1) return all[0][0];
  const named = all.slice(0, MOST_MOVES).map(([way, count]) => `${editor.grouped(count)} ${way}`);
  return named.join(", ") + (all.length > MOST_MOVES ? ", …" : "");
}

/* How many ops differ, in words. */
function counts() {
  const [here, there] = panes.data.layouts;
  if (areVersions()) {
    const of = (/** @type {PaneLayout} */ layout, /** @type {number} */ state) =>
      layout.state?.filter((s) => s === state).length;
    return `${of(here, 1)} changed (≠), ${of(here, 2)} only on the left, ${of(there, 2)} only on the right (+)`;
  }
  const found = [...here.ops.keys()].filter((i) => differs(i)),
    all = editor.counted(here.ops.length);
  if (!found.length) {
    const other = partsDiffer() ? ", in other subgraphs: neighbouring ones differ in colour" : "";
    return `All ${all} are on the same devices${other}`;
  }
  const many = found.length === here.ops.length ? `All ${all}` : `${editor.grouped(found.length)} of ${all}`;
  const [is, has] = found.length === 1 ? ["is", "has"] : ["are", "have"];
  return panes.data.layouts.length === 2
    ? `${many} ${is} on another device (≠): ${moves(found)}`
    : `${many} ${has} different devices (≠)`;
}

/** @param {string} text @param {string} [colour] */
const line = (text, colour) => make("div", {}, colour ? editor.swatch(colour) : "", text);

/** What is under the pointer: the op, and its device in each layout. @param {number} side @param {CyNode | CyEdge} target */
function tell(side, target) {
  const lines = target.isNode() ? tellNode(side, target) : tellEdge(side, target);
  if (!lines) return;
  const tip = editor.one(".panes-tip", box()),
    frame = panes.graphs[side].cy.container()?.getBoundingClientRect(),
    around = box().getBoundingClientRect();
  if (!frame) return;
  tip.replaceChildren(make("b", {}, lines[0]), ...lines.slice(1));
  tip.hidden = false;
  editor.placeBeside(tip, target, [frame.left - around.left, frame.top - around.top], around.width, around.height);
}

/** @param {number} side @param {CyNode} node @returns {[string, ...HTMLElement[]]} */
function tellNode(side, node) {
  const { layouts, devices } = panes.data,
    places = panes.graphs[side].placesOf(node),
    count = panes.graphs[side].differing.get(node.id())?.length ?? 0,
    isBlock = node.hasClass("group"),
    [type, name] = layouts[side].named[places[0]];
  const differing = `${count ? editor.grouped(count) : "none"} of them differ${count === 1 ? "s" : ""}`,
    lines = [line(isBlock ? `${editor.counted(places.length)}, ${differing}` : name)];
  layouts.forEach((layout, to) => {
    const own = places.map((i) => twinOf(i, side, to)).filter((i) => i >= 0),
      of = new Map();
    for (const i of own) of.set(layout.device[i], (of.get(layout.device[i]) ?? 0) + 1);
    const many = [...of].sort((a, b) => b[1] - a[1]),
      words = many.map(([d, n]) =>
        isBlock ? `${editor.grouped(n)} on ${devices[d].name}` : `${devices[d].name} · subgraph ${layout.part[own[0]]}`,
      );
    lines.push(
      many.length ? line(`${layout.name}: ${words.join(", ")}`, devices[many[0][0]].fill) : line(`${layout.name}: not there`),
    );
  });
  if (areVersions() && !isBlock) lines.push(line(inOther(places[0], side)));
  return [isBlock ? node.data("name") : type, ...lines];
}

/** @param {number} side @param {CyEdge} edge @returns {[string, ...HTMLElement[]] | null} */
function tellEdge(side, edge) {
  if (edge.data("states")) return null;
  const words = edge.hasClass("transfer")
    ? "moves from one device to another"
    : edge.hasClass("boundary")
      ? "to another subgraph of the same device"
      : "stays on its device";
  return [edge.data("shape"), line(`${panes.data.layouts[side].name}: ${words}`)];
}

function hush() {
  editor.one(".panes-tip", box()).hidden = true;
}

/** @type {Hetero["setPanesMode"]} */
function setPanesMode(mode) {
  const { layouts } = panes.data,
    two = layouts.length === 2 && !areVersions(),
    grid = editor.one(".panes-grid", box()),
    frames = editor.all("figure", grid),
    { cy } = panes.graphs[0],
    place = editor.placeOf(cy);
  clearInterval(panes.timer);
  if (two) panes.mode = mode;
  grid.dataset.mode = mode;
  grid.style.gridTemplateColumns = `repeat(${mode === "side" ? (layouts.length === 4 ? 2 : layouts.length) : 1}, minmax(0, 1fr))`;
  for (const button of /** @type {HTMLButtonElement[]} */ (editor.all("[data-panes-mode]", box()))) {
    button.ariaPressed = String(button.dataset.panesMode === mode);
    button.disabled = button.dataset.panesMode !== "side" && !two;
  }
  for (const frame of frames) frame.classList.remove("off");
  split(panes.split);
  panes.moving = true;
  for (const each of panes.graphs) each.cy.resize();
  panes.moving = false;
  editor.lookAt(cy, place);
  if (mode !== "blink") return;
  let turn = 0;
  const step = () => {
    frames.forEach((frame, k) => frame.classList.toggle("off", k !== turn));
    turn = 1 - turn;
  };
  step();
  panes.timer = window.setInterval(step, BLINK_MS);
}

/** Where the line of a swipe is: the second layout is right of it. @param {number} share */
function split(share) {
  const grid = editor.one(".panes-grid", box()),
    line = grid.querySelector(".swipe");
  panes.split = Math.max(0, Math.min(1, share));
  const percent = `${(100 * panes.split).toFixed(1)}%`;
  editor.all("figure", grid)[1].style.clipPath = grid.dataset.mode === "swipe" ? `inset(0 0 0 ${percent})` : "";
  if (!line) return;
  line.style.left = percent;
  line.ariaValueNow = String(Math.round(100 * panes.split));
}

function handle() {
  const aria = { role: "slider", ariaLabel: "Line between the two layouts", ariaValueMin: "0", ariaValueMax: "100" },
    line = make("div", { className: "swipe", tabIndex: 0, ...aria });
  line.onpointerdown = (event) => line.setPointerCapture(event.pointerId);
  line.onpointermove = (event) => {
    const around = /** @type {HTMLElement} */ (line.parentElement).getBoundingClientRect();
    if (line.hasPointerCapture(event.pointerId)) split((event.clientX - around.left) / around.width);
  };
  line.onkeydown = (event) => {
    const step = { ArrowLeft: -0.05, ArrowRight: 0.05 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    split(panes.split + step);
  };
  return line;
}

/** @type {Hetero["onlyDifferences"]} */
function onlyDifferences(button) {
  panes.only = !panes.only;
  button.ariaPressed = String(panes.only);
  for (const graph of panes.graphs) graph.fade(panes.only);
}

/* All of the model; where that would be too small, where the layouts begin to differ, or the beginning where they do not. */
function firstLook() {
  const [graph] = panes.graphs,
    first = panes.data.layouts[0].ops.findIndex((_op, i) => differs(i));
  graph.look(graph.nodeOf(Math.max(first, 0)));
}

/* Nodes that differ and touch each other are one difference; of another model those that this one lacks. */
/** @param {PaneGraph} graph @param {number} side */
function regionsOf({ cy, differing, layout }, side) {
  const kind = (/** @type {number[]} */ places) =>
    layout.state ? layout.state[places[0]] : [...new Set(places.map((i) => moves([i])))].sort().join();
  const kinds = new Map(
    [...differing]
      .filter(([, places]) => !side || places.some((i) => layout.state?.[i] === 2))
      .map(([id, places]) => [id, kind(places)]),
  );
  const touch = cy.edges().filter((edge) => {
    const own = kinds.get(edge.source().id());
    return own !== undefined && own === kinds.get(edge.target().id());
  });
  const nodes = cy.nodes().filter((node) => kinds.has(node.id()));
  /** @param {import("cytoscape").CollectionReturnValue} part */
  const placesIn = (part) => part.nodes().map((node) => differing.get(node.id()) ?? []);
  return nodes
    .union(touch)
    .components()
    .map((part) => ({
      side,
      places: placesIn(part)
        .flat()
        .sort((a, b) => a - b),
    }))
    .sort((a, b) => a.places[0] - b.places[0]);
}

/** @type {Hetero["nextDifference"]} */
function nextDifference(step) {
  panes.regions ??= (areVersions() ? panes.graphs : panes.graphs.slice(0, 1)).flatMap(regionsOf);
  const all = panes.regions;
  if (!all.length) return;
  panes.at = panes.at === undefined ? (step > 0 ? 0 : all.length - 1) : (panes.at + step + all.length) % all.length;
  const { side, places } = all[panes.at],
    graph = panes.graphs[side];
  graph.bring(graph.nodeOf(places[0]));
  choose(side, areVersions() ? places.slice(0, 1) : places);
  const words = areVersions()
    ? inOther(places[0], side)
    : `${editor.counted(places.length)} from ${graph.layout.named[places[0]][0]}, ${moves(places)}`;
  note(`difference ${panes.at + 1} of ${all.length}: ${words}`);
}

function closePanes() {
  const element = editor.byId("panes");
  if (!element || element.hidden) return false;
  element.hidden = true;
  clearInterval(panes.timer);
  for (const { cy } of panes.graphs) cy.destroy();
  panes.graphs = [];
  panes.at = panes.regions = panes.anchor = undefined;
  hush();
  return true;
}

const fitPanes = () => panes.graphs[0]?.look();

function panesRestyle() {
  for (const graph of panes.graphs) graph.restyle();
}

editor.provide({ openPanes, openVersions, downloadComparison, closePanes, tickPane, panesFollow, panesRestyle });
editor.provide({ setPanesMode, onlyDifferences, nextDifference, fitPanes });
editor.callbacks({ comparisonArrived });
window.heteroPanes = panes;
