/* The shapes of tensors on the edges in sight, from as near as they can be read. Only these edges have a label: Cytoscape would
   measure those of all. */
((editor) => {
  "use strict";

  const READABLE = 0.9,
    LETTER = 6, // pixels that a character takes, about
    BESIDE = 8,
    LINE = 14, // height of a text, with its ground
    REST = 120, // milliseconds after the view last moved
    ROW = 40, // height in which nodes are kept together
    KEY = "hetero-edge-shapes";
  let timer = 0;

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

  /* Each with how far its text is moved to the right, so that it begins beside the line. */
  /** @type {Hetero["shapedEdges"]} */
  function shapedEdges(edges) {
    const shaped = edges.filter((edge) => hasShapes() && edge.data("shape") !== "?" && !isSaidBeside(edge));
    shaped.forEach((edge) => {
      if (edge.data("aside") === undefined) edge.data("aside", (edge.data("shape").length * LETTER) / 2 + BESIDE);
    });
    return shaped;
  }

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

  /* A label in the middle of a straight edge may be behind a node: then it stands where the edge begins. */
  /**
   * @param {Cy} cy
   * @param {import("cytoscape").EdgeCollection} shaped
   */
  function clear(cy, shaped) {
    if (shaped.empty()) return;
    const taken = rows(cy.nodes(".op, .terminal"));
    shaped.forEach((edge) => {
      const a = edge.source().position(),
        b = edge.target().position(),
        aside = edge.data("aside"),
        x = (a.x + b.x) / 2 + aside,
        y = (a.y + b.y) / 2;
      const hidden = [y - LINE / 2, y + LINE / 2].some((border) =>
        taken
          .get(Math.floor(border / ROW))
          ?.some((box) => Math.abs(box.x - x) < box.w / 2 + aside - BESIDE && Math.abs(box.y - y) < (box.h + LINE) / 2),
      );
      edge.toggleClass("begun", hidden);
    });
  }

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
      clear(cy, now.not(".bent"));
    });
  }

  /** @type {Hetero["labelEdges"]} */
  function labelEdges(cy) {
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      if (!cy.destroyed()) label(cy);
    }, REST);
  }

  /** @type {Hetero["toggleShapes"]} */
  function toggleShapes() {
    const off = hasShapes();
    localStorage.setItem(KEY, off ? "off" : "on");
    label(editor.page.cy);
    editor.say(off ? "Edges have no shapes now." : `Edges have shapes from a zoom of ${100 * READABLE} %.`);
  }

  editor.provide({ labelEdges, shapedEdges, toggleShapes });
})(window.hetero);
