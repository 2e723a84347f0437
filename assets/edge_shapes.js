/* The shapes of tensors on the edges in sight, from as near as they can be read. Only these edges have a label: Cytoscape would
   measure those of all. */

const READABLE = 0.9,
  FONT = "9.5px Inter, system-ui, sans-serif", // as `edge.shaped` of styles.py
  BESIDE = 8,
  FARTHER = 20, // beyond a line that runs beside
  LINE = 10, // height of a text
  APART = 6, // more between two of them
  STEPS = [14, 28, 42, 56, 84, 112], // pixels along a bent edge at which there may be room for a text
  REST = 120, // milliseconds after the view last moved
  ROW = 40, // height in which nodes are kept together
  KEY = "hetero-edge-shapes";
/** @typedef {{ x: number, y: number, w: number, h: number }} Box by its middle */
/** @typedef {Map<number, Box[]>} Rows */
/** @type {WeakMap<Cy, number>} */
const timers = new WeakMap();

const hasShapes = () => localStorage.getItem(KEY) !== "off";

const pen = document.createElement("canvas").getContext("2d");

/** @param {string} text */
function widthOf(text) {
  if (!pen) return 0;
  pen.font = FONT;
  return pen.measureText(text).width + 2;
}

/* A tensor that several ops read is labelled once, on an edge that goes straight down where there is one. */
/** @param {CyEdge} edge */
function isSaidBeside(edge) {
  if (!edge.hasClass("bent")) return false;
  const alike = edge
    .source()
    .outgoers("edge")
    .not(".faint")
    .filter((other) => other.data("shape") === edge.data("shape"));
  return alike.not(".bent").nonempty() || !alike[0].same(edge);
}

/** Keeps a box by how high it is, so that few of them are compared with a label. @param {Rows} rows @param {Box} box */
function keep(rows, box) {
  for (let row = Math.floor((box.y - box.h / 2) / ROW); row <= (box.y + box.h / 2) / ROW; row += 1) {
    const there = rows.get(row);
    if (there) there.push(box);
    else rows.set(row, [box]);
  }
}

/** What no text may be on: nodes, and the names of open blocks. @param {Cy} cy */
function nodesOf(cy) {
  const rows = /** @type {Rows} */ (new Map());
  cy.nodes(".op, .terminal").forEach((node) => {
    keep(rows, { ...node.position(), w: node.width(), h: node.height() });
  });
  cy.nodes(".frame").forEach((frame) => {
    const { x1, y1, w, h } = frame.boundingBox({ includeNodes: false, includeUnderlays: false, includeOverlays: false });
    if (w) keep(rows, { x: x1 + w / 2, y: y1 + h / 2, w, h });
  });
  return rows;
}

/**
 * What a text is better not on: the lines of edges, as boxes that are as wide as a line is long within a row.
 * @param {CyEdges} edges
 */
function linesOf(edges) {
  const rows = /** @type {Rows} */ (new Map());
  edges.not(".faint").forEach((element) => {
    const edge = /** @type {CyEdge} */ (element),
      way = wayOf(edge),
      thick = edge.width();
    for (let i = 1; i < way.length; i += 1) {
      const [from, to] = way[i - 1].y < way[i].y ? [way[i - 1], way[i]] : [way[i], way[i - 1]],
        tall = to.y - from.y;
      let x = from.x;
      for (let y = from.y; y <= to.y; ) {
        const end = Math.min(to.y, (Math.floor(y / ROW) + 1) * ROW),
          right = tall ? from.x + ((to.x - from.x) * (end - from.y)) / tall : to.x;
        keep(rows, { x: (x + right) / 2, y: (y + end) / 2, w: Math.abs(right - x) + thick, h: end - y + thick });
        if (end === to.y) break;
        y = end;
        x = right;
      }
    }
  });
  return rows;
}

/** @type {Hetero["wayOf"]} */
function wayOf(edge) {
  const through = edge.hasClass("bent") ? edge.segmentPoints() : edge.isLoop() ? edge.controlPoints() : [];
  return [edge.sourceEndpoint(), ...through, edge.targetEndpoint()];
}

/** @type {Hetero["pointAlong"]} */
function pointAlong(way, far) {
  let rest = far;
  for (let i = 1; i < way.length; i += 1) {
    const { x, y } = way[i - 1],
      wide = way[i].x - x,
      tall = way[i].y - y,
      long = Math.hypot(wide, tall);
    if (rest <= long)
      return { x: x + (wide * rest) / long, y: y + (tall * rest) / long, flat: Math.abs(wide) > 2 * Math.abs(tall) };
    rest -= long;
  }
  return null;
}

/**
 * Where the text of an edge may be: how far along the edge, and how far to the side, so that it begins beside the line.
 * @param {CyEdge} edge
 * @param {number} half of the width of the text
 */
function placesOf(edge, half) {
  const way = wayOf(edge),
    middle = Math.hypot(way[0].x - way[way.length - 1].x, way[0].y - way[way.length - 1].y) / 2;
  const steps = edge.hasClass("bent") ? STEPS : [middle, 0.6 * middle, 1.4 * middle, 9];
  return [BESIDE, FARTHER].flatMap((gap) =>
    steps.flatMap((along) => {
      const at = pointAlong(way, along);
      return [1, -1].flatMap((side) => {
        if (!at) return [];
        const aside = at.flat ? 0 : side * (half + gap),
          below = at.flat ? -side * gap : 0;
        return [{ along, aside, below, box: { x: at.x + aside, y: at.y + below, w: 2 * half, h: LINE } }];
      });
    }),
  );
}

/** A text is behind no node and on no other text, and on no line where there is room; one that has no such place is left
 * out. Transfers choose first. @type {Hetero["shapedEdges"]} */
function shapedEdges(edges) {
  const shaped = edges.filter(
    (edge) => hasShapes() && edge.data("shape") !== "?" && !edge.hasClass("faint") && !isSaidBeside(edge),
  );
  if (shaped.empty()) return shaped;
  const taken = nodesOf(shaped.cy()),
    lines = linesOf(edges);
  return shaped
    .filter(".transfer")
    .union(shaped)
    .filter((element) => {
      const edge = /** @type {CyEdge} */ (element),
        places = placesOf(edge, widthOf(edge.data("shape")) / 2).filter(({ box }) => isClear(taken, box)),
        place = places.find(({ box }) => isClear(lines, box)) ?? places[0];
      if (!place) return false;
      keep(taken, { ...place.box, h: LINE + APART });
      const { along, aside, below } = place;
      edge.data({ along, aside, below });
      return true;
    });
}

/** @param {Rows} taken @param {Box} box */
const isClear = (taken, { x, y, w, h }) =>
  ![y - h / 2, y + h / 2].some((border) =>
    taken
      .get(Math.floor(border / ROW))
      ?.some((other) => Math.abs(other.x - x) < (other.w + w) / 2 && Math.abs(other.y - y) < (other.h + h) / 2),
  );

/** @param {Cy} cy */
function label(cy) {
  const view = cy.extent(),
    shown = cy.zoom() >= READABLE;
  /** @param {CyEdge} edge */
  const inSight = (edge) => {
    const { x, y } = edge.source().position(); // the label is near, and what is a little outside comes into view soon
    return x > view.x1 - view.w && x < view.x2 + view.w && y > view.y1 - view.h && y < view.y2 + view.h;
  };
  cy.batch(() => {
    const now = shown ? shapedEdges(cy.edges().filter(inSight)) : cy.collection();
    cy.edges(".shaped").not(now).removeClass("shaped");
    now.addClass("shaped");
  });
}

/** @type {Hetero["labelEdges"]} */
function labelEdges(cy) {
  clearTimeout(timers.get(cy));
  const timer = window.setTimeout(() => {
    if (!cy.destroyed()) label(cy);
  }, REST);
  timers.set(cy, timer);
}

function toggleShapes() {
  const off = hasShapes();
  localStorage.setItem(KEY, off ? "off" : "on");
  label(page.cy);
  editor.say(off ? "Edges have no shapes now." : `Edges have shapes from a zoom of ${100 * READABLE} %.`);
}

editor.provide({ labelEdges, pointAlong, shapedEdges, toggleShapes, wayOf });
