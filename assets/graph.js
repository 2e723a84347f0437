/* The Cytoscape instance: colours of the plan on it, and what moves the view. */

const LIT = 3,
  READABLE = 0.4, // names have 8 pixels here
  DISTINCT = 0.22, // boxes and their colours can be told apart from here on
  NEARLY = 0.65, // how much smaller a graph may get that is still shown whole
  CLEAR = 0.7;

// dash-cytoscape passes the usual sensitivity of the wheel, and Cytoscape warns of any; `tune` sets it.
const usual = window.dash_cytoscape?.Cytoscape.defaultProps;
if (usual) delete usual.wheelSensitivity;

function liveGraph() {
  const element = /** @type {any} */ (editor.byId("graph")); // dash-cytoscape keeps the instance there
  return element?._cyreg?.cy ?? null;
}

/** @param {Cy} cy */
function attach(cy) {
  const element = /** @type {HTMLElement} */ (cy.container());
  element.role = "application";
  element.ariaLabel = "Graph of the model: arrow keys go along the edges, the tables below say the same in words";
  page.cy = cy;
  window.heteroCy = cy;
  page.region = page.first = page.groupOf = null;
  tune(cy);
  editor.wakeOnRedraw(cy);
  cy.on("tap", "node.op", (event) => editor.tapOp(event.target));
  cy.on("dbltap", "node.group", (event) => editor.openTapped(event.target));
  cy.on("dbltap", "node.holder", (event) => editor.openBody(event.target.data("body")));
  cy.on("dbltap", "node.frame", (event) => editor.closeFrame(event.target));
  cy.on("tap", "node.frame", editor.tapFrame);
  cy.on("cxttap", editor.openContextMenu);
  cy.on("tap", (event) => {
    if (event.target === cy || event.target.hasClass("frame")) editor.unmark();
  });
  cy.on("boxstart", () => {
    page.boxing = true;
    page.chosen = null;
    if (editor.painting()) cy.elements(":selected").unselect();
  });
  cy.on("boxend", () => setTimeout(editor.endBox, 0));
  cy.on("select unselect", () => {
    if (!page.boxing) editor.reportSelection();
  });
  cy.on("mouseover", "node", (event) => {
    page.under = event.target;
    event.target.connectedEdges(".faint").addClass("lit");
  });
  cy.on("mouseout", "node", () => {
    page.under = null;
    light(cy);
  });
  let waiting = 0;
  cy.on("select unselect", "node", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => light(cy), 0);
  });
  cy.on("mouseover", "node.op, edge", (event) => {
    element.style.cursor = event.target.isNode() ? "pointer" : "";
    editor.hoverOver(event.target);
  });
  cy.on("mouseout", "node.op, edge", () => {
    element.style.cursor = "";
    editor.hoverOut();
  });
  cy.on("tapstart", editor.hoverOut);
  cy.on("dragpan", () => {
    chosen = true;
  });
  cy.on("zoom", () => showFar(cy));
  cy.on("viewport add", () => editor.labelEdges(cy));
  let later = 0;
  cy.on("viewport", () => {
    window.heteroMap.draw();
    editor.hoverMoved();
    // a reload of the page comes back to this place
    clearTimeout(later);
    later = setTimeout(() => editor.remember({ view: { ...placeOf(cy), whole: isUnmoved(cy) } }), 250);
  });
  let width = cy.width(),
    height = cy.height();
  cy.on("resize", () => {
    if (cy.width() === width && cy.height() === height) return; // an edit: what the cards cover may have changed, the view stays
    // what was in the middle stays there
    if (!settle(cy)) cy.panBy({ x: (cy.width() - width) / 2, y: (cy.height() - height) / 2 });
    width = cy.width();
    height = cy.height();
  });
  firstView(cy);
  editor.showMode();
}

/** @type {Hetero["wholeOf"]} */
const wholeOf = (box, largest) => window.heteroWhole(box, page.cy.width(), page.cy.height(), largest);

/** Far out nodes show their name and the numbers of their devices only. @param {Cy} cy */
function showFar(cy) {
  const far = window.heteroFar(cy.zoom());
  if (far.far === page.far.far && far.farther === page.far.farther) return;
  page.far = far;
  cy.batch(() => editor.showFrom(cy.nodes().not(".frame"), far));
}

/** Edges of hubs show with a node in hand; with many they would be the wall again that they are hidden for. @param {Cy} cy */
function light(cy) {
  const chosen = cy.nodes(":selected"),
    lit = chosen.length <= LIT ? chosen.connectedEdges(".faint") : cy.collection();
  cy.batch(() => {
    cy.edges(".lit").not(lit).removeClass("lit");
    lit.addClass("lit");
  });
}

/* The picture that came before has the same nodes at the same places; Cytoscape would measure every name for it. */
function pictureBox() {
  const data = editor.byId("preview")?.querySelector("svg")?.dataset;
  return data ? { x1: Number(data.x0), x2: Number(data.x1), y1: Number(data.y0), y2: Number(data.y1) } : null;
}

/** @param {Cy} cy */
function firstView(cy) {
  const sources = cy
      .nodes()
      .not(".frame")
      .nodes()
      .filter((node) => node.incomers("edge").not(".state").empty()),
    box = pictureBox() ?? cy.elements().boundingBox();
  const first = sources.nonempty() ? sources[0].position("x") : (box.x1 + box.x2) / 2;
  const change = page.view.change,
    node = change < 0 ? null : editor.nodesOf([change]),
    focus = node?.nonempty() ? { ...node[0].position() } : null;
  showFirst(cy, { box, first, focus });
}

/** @param {Cy} cy @param {{ box: Bounds, first: number, focus: Point | null }} what */
function showFirst(cy, { box, first, focus }) {
  const view = window.heteroFirstView(box, cy.width(), cy.height(), first, focus);
  if (view.zoom === wholeOf(box).zoom) showWhole(cy, box);
  else cy.viewport(view);
  given = { box, first, focus, zoom: cy.zoom() };
  chosen = false;
}

/** The view that the graph was shown with first, and what it shows.
 * @type {{ zoom: number, box: Bounds, first: number, focus: Point | null } | null} */
let given = null;

/** Whether a person chose what is looked at: the graph was dragged, a block opened, a place returned to. */
let chosen = false;

/* Whether a view was only shifted since, if at all, as for an op that was clicked. */
/** @param {Cy} cy @param {{ zoom: number } | null} view */
const isAt = (cy, view) => view?.zoom === cy.zoom() && !chosen;

/** @param {Cy} cy @param {Bounds} box */
function showWhole(cy, box) {
  cy.viewport(wholeOf(box));
  isWhole(cy, box);
}

/** @param {Cy} cy @param {Bounds} box */
function isWhole(cy, box) {
  whole = { zoom: cy.zoom(), ...cy.pan(), box };
  chosen = false;
}

/** The view of the whole graph, as it was chosen for a person. @type {{ zoom: number, x: number, y: number, box: Bounds } | null} */
let whole = null;

/** The properties of a component in what Dash is going to show. @param {any} shown @param {string} id @returns {any} */
function partOf(shown, id) {
  if (!shown || shown.props?.id === id) return shown?.props;
  for (const each of Array.isArray(shown) ? shown : [shown.props?.children]) {
    const found = partOf(each, id);
    if (found) return found;
  }
}

/** The plan whose looks the elements of a new page have. @type {Messages.View | null} */
let dressed = null;

/* The plan of a new page is on its graph from the beginning: by the time Dash comes to the page's callbacks, Cytoscape would have
   worked out all styles and drawn the graph without it. */
/** @type {Hetero["expectGraph"]} */
function expectGraph(shown) {
  const view = partOf(shown, "view")?.data,
    graph = partOf(shown, "graph"),
    styles = partOf(shown, "styles")?.data,
    picture = editor.byId("preview")?.querySelector("svg");
  if (!view) {
    const name = partOf(shown, "set-name")?.children;
    document.title = name ? `${name} · Hetero Editor` : "Hetero Editor";
    editor.byId("preview")?.remove();
    return;
  }
  if (picture) page.far = { far: picture.classList.contains("far"), farther: picture.classList.contains("farther") };
  if (graph) {
    editor.dress(graph.elements, view);
    dressed = view;
    graph.stylesheet = styles?.[document.documentElement.dataset.scheme || "light"] ?? graph.stylesheet;
  }
  const watch = new MutationObserver(() => {
    // a class: `body:has(#editor)` would have all that is drawn looked at again whenever anything comes into the page
    if (editor.byId("editor")) editor.byId("preview")?.classList.add("over");
    const now = graph ? liveGraph() : editor.byId("editor");
    if (!now || now === (graph ? page.cy : page.editor)) return;
    watch.disconnect();
    apply(view);
    if (graph) redrawn(graph.elements, partOf(shown, "detail")?.data);
    if (!document.fonts.check("12px Inter")) document.fonts.load("12px Inter").then(() => page.cy?.style().update());
    editor.showRibbon(partOf(shown, "ribbon")?.data);
  });
  watch.observe(document.body, { childList: true, subtree: true });
}

/** @type {Hetero["apply"]} */
function apply(view) {
  page.view = view;
  const address = `/d/${view.document}`; // opened from the command line, the address is still "/"
  if (window.location.pathname !== address) window.history.replaceState(window.history.state, "", address);
  page.index = /** @type {PageState["index"]} */ (new Map(view.ops.map((op, i) => [op, i])));
  window.heteroColours = Object.fromEntries(view.devices.map((d) => [d.name, d.fill]));
  const cy = liveGraph();
  if (!cy) {
    if (editor.byId("graph")) setTimeout(() => apply(page.view), 30);
    else window.heteroGraphShown();
  } else {
    if (dressed !== view || page.colourMode !== "device") editor.colour(cy, view, true);
    else editor.lines(cy);
    dressed = null;
    if (cy !== page.cy) attach(cy); // after the colours, so that styles are worked out once
    const look = editor.byId("preview");
    whenSeen(() => {
      look?.remove();
      requestIdleCallback(window.heteroGraphShown, { timeout: 400 });
    });
  }
  window.heteroMap.draw();
  editor.panesFollow();
  if (page.editor !== editor.byId("editor")) {
    page.editor = editor.byId("editor");
    page.hold = null; // of the document before
    document.title = `${document.querySelector(".model-name")?.textContent || ""} · Hetero Editor`; // several tabs are told apart
    editor.restorePanels();
    [0, 500, 1500, 4000].forEach((wait) => setTimeout(editor.labelFields, wait)); // uploads load late
    editor.recall();
    editor.openLink();
  }
  for (const button of /** @type {HTMLButtonElement[]} */ (editor.all("[data-hint]"))) {
    // done, or undone
    /** @param {number} op */
    const done = (op) => view.pin[page.index.get(op)] && view.device[page.index.get(op)] === Number(button.dataset.device);
    button.disabled = (button.dataset.hint || "").split(",").map(Number).every(done);
  }
  for (const note of editor.all("[data-step-of]")) note.hidden = note.dataset.stepOf === view.step;
  for (const name of editor.all("[data-plan-of]"))
    name.textContent = name.dataset.planOf === view.step ? "this plan" : "the plan compared";
  for (const tick of editor.all("[data-tick-of]")) tick.hidden = tick.dataset.tickOf !== view.step;
  setTimeout(() => editor.showRow(editor.selectedOps()), 150); // an edit may have moved them; the table has its new rows then
  editor.drawRules(view.rules);
  editor.legend();
  editor.showUndo();
  editor.showMode();
}

/* What comes into the panels, once they are there: Dash does not show what it was told of parts that were not yet drawn. */
function panelsShown() {
  if (page.view) editor.drawRules(page.view.rules);
  editor.followRun(); // one that runs, or was run
}

/** Once what is drawn now has been painted. @param {() => void} then */
const whenSeen = (then) => requestAnimationFrame(() => requestAnimationFrame(then));

/* New elements came from the server: colour them, and keep the place. */
/** @param {GraphElement[]} elements @param {Messages.DetailShown} detail */
function redrawn(elements, detail) {
  const before = page.detail;
  page.detail = detail;
  if (page.shown.before) page.shown.blocks = detail.open.filter((number) => !page.shown.before?.includes(number));
  if (before) editor.remember({ detail: detail });
  whenDrawn(elements, (cy) => {
    if (!page.view) return;
    page.groupOf = null;
    if (before || cy !== page.cy) {
      editor.colour(cy, page.view);
      if (cy !== page.cy) attach(cy);
      tune(cy);
    }
    if (page.hold) cy.viewport(page.hold);
    if (page.keep) keepPlace(cy, page.keep);
    else if (before && detail && before.mode !== detail.mode) firstView(cy);
    if (page.fitNext) firstView(cy);
    page.hold = page.keep = null;
    page.fitNext = false;
    comeBack();
    editor.reselect();
    if (page.wanted !== undefined) {
      const op = page.wanted;
      page.wanted = undefined;
      editor.arrive(op);
    }
  });
}

/* Once the graph has taken over new elements: its component does so a little after they came. */
/** @param {GraphElement[]} elements @param {(cy: Cy) => void} then @param {number} [tries] */
function whenDrawn(elements, then, tries = 100) {
  const cy = liveGraph(),
    all = cy?.elements();
  const isThere = (/** @type {number} */ i) => cy.getElementById(elements[i].data.id).nonempty(),
    done = all?.length === elements.length && [0, all.length - 1].every(isThere);
  if (done || !tries) {
    if (cy) then(cy);
  } else setTimeout(() => whenDrawn(elements, then, tries - 1), 4);
}

/** Who has not moved the view sees the whole graph, or where it begins where that is too small to tell blocks apart; false for
 * others. @type {Hetero["settle"]} */
function settle(cy) {
  if (whole && seesWhole(cy)) {
    const isSmall = wholeOf(whole.box).zoom < DISTINCT;
    given && isSmall ? showFirst(cy, { ...given, box: whole.box }) : showWhole(cy, whole.box);
  } else if (given && isAt(cy, given)) showFirst(cy, given);
  else return false;
  return true;
}

/** @param {Cy} cy */
const seesWhole = (cy) => isAt(cy, whole);

/** A reload comes back to what is seen now, also where it was only shifted. @param {Cy} cy */
const isUnmoved = (cy) => seesWhole(cy) && whole?.x === cy.pan().x && whole.y === cy.pan().y;

/* What is looked at, whatever the size of the window: panels have another one while a page is loaded. */
/** @type {Hetero["placeOf"]} */
function placeOf(cy) {
  const { x1, y1, w, h } = cy.extent();
  return { zoom: cy.zoom(), x: x1 + w / 2, y: y1 + h / 2 };
}

/** @type {Hetero["lookAt"]} */
const lookAt = (cy, { zoom, x, y }) =>
  cy.viewport({ zoom, pan: { x: cy.width() / 2 - x * zoom, y: cy.height() / 2 - y * zoom } });

/* To where this document was looked at before the page was loaded again. */
function comeBack() {
  const { cy, back } = page;
  page.back = null;
  if (!cy || !back || !Number.isFinite(back.x)) return;
  if (back.whole) showWhole(cy, whole?.box ?? cy.elements().boundingBox());
  else {
    chosen = true;
    lookAt(cy, back);
  }
}

/* dash-cytoscape fits the graph whenever elements come and go; people want to stay where they are. */
function hold() {
  if (page.cy) page.hold = { zoom: page.cy.zoom(), pan: { ...page.cy.pan() } };
}

/** @param {Cy} cy */
function tune(cy) {
  const many = cy.elements().length > 700,
    renderer = /** @type {any} */ (cy).renderer(); // draw less while the view moves
  renderer.wheelSensitivity = 1;
  renderer.hideEdgesOnViewport = renderer.textureOnViewport = many;
}

/* A graph that is shown whole stays so, as long as it gets little smaller. Otherwise what was opened or closed stays where it
   was on the screen; what is larger than the room between the cards gets smaller, as long as it can be read. */
/** @param {Cy} cy @param {{ ops: Set<number>, at: Point }} keep */
function keepPlace(cy, keep) {
  const opened = cy.nodes(".op").filter((n) => editor.opsOf(n).some((op) => keep.ops.has(op))),
    nodes = opened.nodes();
  if (nodes.empty()) return;
  const at = nodes.min((n) => n.position("y")).ele.position(),
    frames = cy.nodes(".frame").filter((frame) => editor.opsIn(frame.data("ops")).every((op) => keep.ops.has(op))),
    box = nodes.union(frames).boundingBox({ includeLabels: false }),
    fitting = wholeOf(box, cy.zoom()).zoom,
    z = fitting < READABLE ? cy.zoom() : fitting,
    all = cy.elements().boundingBox();
  if (isAt(cy, whole) && wholeOf(all).zoom >= NEARLY * z) {
    showWhole(cy, all);
    return;
  }
  chosen = true;
  const x = keep.at.x - at.x * z,
    y = Math.min(keep.at.y, cy.height() / 3) - at.y * z;
  cy.viewport({ zoom: z, pan: clearOfCards(cy, box, { x, y }, z) });
}

/* A pan as near as can be at which a box is where no card is; of one that is too large, its top. */
/**
 * @param {Cy} cy
 * @param {{ x1: number, y1: number, x2: number, y2: number }} box
 * @param {Point} pan
 * @param {number} z the zoom
 */
function clearOfCards(cy, box, pan, z) {
  const free = window.heteroFree(cy.width(), cy.height());
  /** @type {(now: number, from: number, to: number, start: number, room: number) => number} */
  const shifted = (now, from, to, start, room) => {
    if ((to - from) * z > room) return start - from * z;
    return Math.max(Math.min(now, start + room - to * z), start - from * z);
  };
  return {
    x: shifted(pan.x, box.x1, box.x2, free.left, free.width),
    y: shifted(pan.y, box.y1, box.y2, free.top, free.height),
  };
}

const centre = () => ({ x: page.cy.width() / 2, y: page.cy.height() / 2 });
/** @type {Hetero["zoom"]} */
const zoom = (factor) => page.cy?.zoom({ level: page.cy.zoom() * factor, renderedPosition: centre() });
const CALM = window.matchMedia("(prefers-reduced-motion: reduce)"),
  MOVE_MS = 160;
/** Moves the view, at once for who wants no motion. @param {Viewport} to @param {() => void} [then] */
const move = (to, then) => page.cy?.animate({ ...to, duration: CALM.matches ? 0 : MOVE_MS }, { complete: then });
const zoomToSelection = () => {
  const chosen = page.cy?.elements(":selected");
  if (chosen?.nonempty()) move(wholeOf(chosen.boundingBox(), 3));
  else editor.say("Select something first.");
};
/* Zooms where a box would be too small to read, or too large. A box that is not clear of the cards goes to the middle, as what is
   around it matters too; the view moves along no other axis. */
/** @type {Hetero["bring"]} */
function bring(box) {
  const cy = page.cy.stop(),
    was = cy.zoom(),
    { zoom } = wholeOf(box, was < READABLE ? CLEAR : was),
    now = cy.pan(),
    clear = clearOfCards(cy, box, now, was),
    free = window.heteroFree(cy.width(), cy.height()),
    pan = {
      x: zoom === was && clear.x === now.x ? now.x : free.left + free.width / 2 - ((box.x1 + box.x2) / 2) * zoom,
      y: zoom === was && clear.y === now.y ? now.y : free.top + free.height / 2 - ((box.y1 + box.y2) / 2) * zoom,
    },
    to = clearOfCards(cy, box, pan, zoom); // of one that is too large, its top
  if (zoom !== was || to.x !== now.x || to.y !== now.y) move({ zoom, pan: to });
}
/* Everything, but never larger than life, and clear of the lists at the top. */
function fit() {
  const { cy } = page,
    box = cy?.elements().boundingBox();
  if (!box) return;
  given = null; // all of it, also where that is too small to read
  move(wholeOf(box), () => isWhole(cy, box));
}

editor.provide({ comeBack, wholeOf, placeOf, lookAt, bring, zoomToSelection, hold, centre, zoom, fit, settle, apply });
editor.provide({ expectGraph, panelsShown });
/** @param {string} scheme @param {Record<string, unknown>} styles */
const restyle = (scheme, styles) => styles[scheme];

editor.callbacks({ redrawn, restyle });
