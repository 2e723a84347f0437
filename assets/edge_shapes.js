/* The shapes of tensors on the edges in sight, from as near as they can be read. Only these edges have a label: Cytoscape would
   measure those of all. */
((editor) => {
  "use strict";

  const READABLE = 0.9,
    LETTER = 6, // pixels that a character takes, about
    BESIDE = 8,
    LINE = 10, // height of a text
    STEPS = [14, 28, 42, 56, 84, 112], // pixels along a bent edge at which there may be room for a text
    REST = 120, // milliseconds after the view last moved
    ROW = 40, // height in which nodes are kept together
    KEY = "hetero-edge-shapes";
  /** @type {WeakMap<Cy, number>} */
  const timers = new WeakMap();

  const hasShapes = () => localStorage.getItem(KEY) !== "off";

  /* A tensor that several ops read is labelled once, on an edge that goes straight down where there is one. */
  /** @param {import("cytoscape").EdgeSingular} edge */
  const isSaidBeside = (edge) =>
    edge.hasClass("bent") &&
    edge
      .source()
      .outgoers("edge")
      .not(".bent, .faint")
      .toArray()
      .some((other) => other.data("shape") === edge.data("shape"));

  /**
   * Nodes by how high they are, so that few of them are compared with a label.
   * @param {import("cytoscape").NodeCollection} nodes
   */
  function rows(nodes) {
    const found = /** @type {Map<number, { x: number, y: number, w: number, h: number }[]>} */ (new Map());
    nodes.forEach((node) => {
      const box = { ...node.position(), w: node.width(), h: node.height() };
      for (let row = Math.floor((box.y - box.h / 2) / ROW); row <= (box.y + box.h / 2) / ROW; row += 1)
        found.set(row, [...(found.get(row) ?? []), box]);
    });
    return found;
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
        long = Math.hypot(way[i].x - x, way[i].y - y);
      if (rest <= long) return { x: x + ((way[i].x - x) * rest) / long, y: y + ((way[i].y - y) * rest) / long };
      rest -= long;
    }
    return null;
  }

  /* Each with how far along the edge its text is, and how far to the right, so that it begins beside the line. A text that
     would be behind a node at every place has none. */
  /** @type {Hetero["shapedEdges"]} */
  function shapedEdges(edges) {
    const shaped = edges.filter((edge) => hasShapes() && edge.data("shape") !== "?" && !isSaidBeside(edge));
    if (shaped.empty()) return shaped;
    const taken = rows(shaped.cy().nodes(".op, .terminal"));
    return shaped.filter((element) => {
      const edge = /** @type {import("cytoscape").EdgeSingular} */ (element),
        way = wayOf(edge),
        half = (edge.data("shape").length * LETTER) / 2,
        middle = Math.hypot(way[0].x - way[way.length - 1].x, way[0].y - way[way.length - 1].y) / 2;
      const along = (edge.hasClass("bent") ? STEPS : [middle, 9]).find((far) => {
        const at = pointAlong(way, far);
        return at && isClear(taken, at.x + half + BESIDE, at.y, half);
      });
      if (along !== undefined) edge.data({ along, aside: half + BESIDE });
      return along !== undefined;
    });
  }

  /**
   * @param {ReturnType<typeof rows>} taken
   * @param {number} x
   * @param {number} y
   * @param {number} half
   */
  const isClear = (taken, x, y, half) =>
    ![y - LINE / 2, y + LINE / 2].some((border) =>
      taken
        .get(Math.floor(border / ROW))
        ?.some((box) => Math.abs(box.x - x) < box.w / 2 + half && Math.abs(box.y - y) < (box.h + LINE) / 2),
    );

  /** @param {Cy} cy */
  function label(cy) {
    const view = cy.extent(),
      shown = cy.zoom() >= READABLE;
    /** @param {import("cytoscape").EdgeSingular} edge */
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

  /** @type {Hetero["toggleShapes"]} */
  function toggleShapes() {
    const off = hasShapes();
    localStorage.setItem(KEY, off ? "off" : "on");
    label(editor.page.cy);
    editor.say(off ? "Edges have no shapes now." : `Edges have shapes from a zoom of ${100 * READABLE} %.`);
  }

  editor.provide({ labelEdges, pointAlong, shapedEdges, toggleShapes, wayOf });
})(window.hetero);
