/* One pane of a comparison: the graph as the canvas draws it, in the colours of one layout. What differs has a border and a sign. */

const MANY = 400, // elements; with more, less is drawn while the view moves
  READABLE = 0.4,
  SEEN = 0.25, // colours and signs are told apart from here
  CLEAR = 0.67, // names and devices can be read, as in `_first_view.js`
  MARGIN = 20,
  LARGEST = 1.2,
  CORNER = { op: [64, 19], group: [71, 23] };

const styles = () => /** @type {any} */ (page.cy.style()).json();

class PaneGraph {
  /** @param {HTMLElement} box @param {PaneLayout} layout @param {Messages.PaneDevice[]} devices */
  constructor(box, layout, devices) {
    this.layout = layout;
    this.view = page.view;
    this.index = /** @type {Map<number, number>} */ (new Map());
    this.take(layout, devices);
    /** @type {Map<string, number[]>} */
    this.differing = new Map(); // nodes, and the places of their ops that differ
    /** @type {Map<number, string>} */
    this.nodeOfPlace = new Map();
    const Cytoscape = /** @type {new (options: import("cytoscape").CytoscapeOptions) => Cy} */ (page.cy.constructor);
    this.cy = new Cytoscape({
      container: box,
      style: styles(),
      maxZoom: 4,
      boxSelectionEnabled: false,
      autoungrabify: true,
      autounselectify: true,
    });
    editor.wakeOnRedraw(this.cy);
    this.cy.on("zoom", () => this.showFar());
    this.cy.on("viewport add", () => editor.labelEdges(this.cy));
  }

  /** @param {PaneLayout} layout @param {Messages.PaneDevice[]} devices */
  take(layout, devices) {
    const { ops, device, part, partColour } = layout;
    this.layout = layout;
    this.view = /** @type {Messages.View} */ ({ ...page.view, ops, device: [...device], part: [...part], partColour });
    this.view.pin = ops.map(() => 0);
    this.view.devices = devices.map((each) => ({ ...page.view.devices[0], ...each }));
    this.index = new Map(ops.map((op, i) => [op, i]));
  }

  /**
   * @param {GraphElement[]} elements
   * @param {(place: number) => string} signOf what an op is in the other layouts, "" where it is the same
   * @param {string} colourMode
   */
  draw(elements, signOf, colourMode) {
    const drawn = structuredClone(elements),
      renderer = /** @type {any} */ (this.cy).renderer();
    editor.dress(drawn, this.view, colourMode);
    this.differing.clear();
    this.nodeOfPlace.clear();
    const signs = drawn.flatMap((element) => this.sign(element, signOf) ?? []);
    renderer.hideEdgesOnViewport = renderer.textureOnViewport = drawn.length > MANY;
    this.cy.batch(() => {
      this.cy.elements().remove();
      this.cy.add(/** @type {any} */ ([...drawn, ...signs]));
    });
    this.showFar();
  }

  /** @param {any} element @param {(place: number) => string} signOf */
  sign(element, signOf) {
    if (!element.position) return null;
    element.pannable = true;
    if (element.classes.startsWith("frame") || element.data.tensor !== undefined) return null;
    const { id, op, ops } = element.data,
      isBlock = ops !== undefined,
      places = (isBlock ? editor.opsIn(ops) : [op]).map((each) => /** @type {number} */ (this.index.get(each))),
      found = places.filter((place) => signOf(place));
    places.forEach((place) => this.nodeOfPlace.set(place, id));
    if (!found.length) return null;
    this.differing.set(id, found);
    element.classes += " differs";
    const signs = [...new Set(found.map(signOf))].join(""),
      label = isBlock ? `${signs} ${found.length}` : signs,
      far = found.length === places.length ? signs : label, // neighbours are near from afar
      w = 8 + 9 * label.length,
      [right, top] = CORNER[isBlock ? "group" : "op"];
    return {
      data: { id: `sign-${id}`, label, far, w, farW: 10 + 14 * far.length },
      classes: "sign",
      selectable: false,
      position: { x: element.position.x + right - 8 + w / 2, y: element.position.y - top },
    };
  }

  restyle() {
    this.cy.style(styles());
  }

  showFar() {
    this.cy.batch(() => editor.showFrom(this.cy.nodes().not(".frame"), window.heteroFar(this.cy.zoom())));
  }

  /** @param {CyNode} node */
  placesOf(node) {
    return editor.opsOf(node).map((/** @type {number} */ op) => /** @type {number} */ (this.index.get(op)));
  }

  /** @param {number} place */
  nodeOf(place) {
    return this.cy.getElementById(this.nodeOfPlace.get(place) ?? "");
  }

  /** @param {number[]} places */
  mark(places) {
    const ids = new Set(places.map((place) => this.nodeOfPlace.get(place)));
    this.cy.batch(() => this.cy.nodes(".op").forEach((node) => void node.toggleClass("mark", ids.has(node.id()))));
  }

  /** @param {boolean} only */
  fade(only) {
    const same = this.cy.nodes(".op, .terminal").not(".differs");
    this.cy.batch(() => {
      same.toggleClass("faded", only);
      this.cy.edges().toggleClass("dim", only);
    });
  }

  /* All of it; where that would be too small and there is a node to look at, what is around this one. */
  /** @param {CyNode} [focus] */
  look(focus) {
    const { cy } = this,
      box = cy.nodes().boundingBox({ includeLabels: false }),
      whole = Math.min((cy.width() - 2 * MARGIN) / box.w, (cy.height() - 2 * MARGIN) / box.h, LARGEST),
      near = focus?.nonempty() && whole < SEEN ? focus.position() : null,
      zoom = near ? CLEAR : whole;
    /** @type {(size: number, from: number, to: number, middle?: number) => number} */
    const shift = (size, from, to, middle) => {
      const centred = (size - (from + to) * zoom) / 2,
        free = size - 2 * MARGIN - (to - from) * zoom;
      if (middle === undefined || free >= 0) return centred;
      return Math.max(Math.min(size / 2 - middle * zoom, MARGIN - from * zoom), size - MARGIN - to * zoom);
    };
    cy.viewport({
      zoom,
      pan: { x: shift(cy.width(), box.x1, box.x2, near?.x), y: shift(cy.height(), box.y1, box.y2, near?.y) },
    });
  }

  /** To the middle, unless it is seen. @param {CyNode} node */
  bring(node) {
    const view = this.cy.extent(),
      own = node.boundingBox({ includeLabels: false });
    const isSeen = own.x1 > view.x1 && own.x2 < view.x2 && own.y1 > view.y1 && own.y2 < view.y2;
    if (isSeen && this.cy.zoom() >= READABLE) return;
    editor.lookAt(this.cy, { zoom: Math.max(this.cy.zoom(), CLEAR), ...node.position() });
  }
}

editor.provide({ PaneGraph });
