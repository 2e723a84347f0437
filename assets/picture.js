/* A picture of the view: PNG as Cytoscape draws it, SVG as shapes. */
((editor) => {
  "use strict";

  const page = editor.page;

  /** @type {Hetero["picture"]} */
  function picture(form) {
    const cy = page.cy;
    if (!cy) return;
    const ground = getComputedStyle(document.body).getPropertyValue("--ground").trim();
    const blob =
      form === "png"
        ? cy.png({ output: "blob", full: false, scale: 2, bg: ground })
        : new Blob([svgOf(cy, ground)], { type: "image/svg+xml" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${(editor.one(".model-name").textContent || "").replace(/\.[a-z]+$/, "") || "view"}.${form}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 5000);
  }

  /** @type {Record<string, string>} */
  const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

  /** @param {unknown} text */
  const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ENTITIES[c]);

  /** @param {number} number */
  const fixed = (number) => number.toFixed(1);

  /* What the viewport shows, as shapes that can be scaled and edited. */
  /**
   * @param {Cy} cy
   * @param {string} ground
   */
  function svgOf(cy, ground) {
    const w = cy.width(),
      h = cy.height(),
      inside = (/** @type {Bounds} */ b) => b.x2 > 0 && b.y2 > 0 && b.x1 < w && b.y1 < h;
    const bare = { includeLabels: false, includeUnderlays: false, includeOverlays: false },
      /** @type {string[]} */
      defs = [],
      /** @type {string[]} */
      out = [];
    const nodes = cy.nodes().filter((node) => inside(node.renderedBoundingBox(bare)));
    nodes
      .filter(".frame")
      .nodes()
      .forEach((node) => {
        out.push(svgFrame(node, cy.zoom()));
      });
    cy.edges().forEach((edge) => {
      if (edge.style("visibility") === "visible" && edge.style("display") !== "none" && inside(edge.renderedBoundingBox()))
        out.push(svgEdge(edge, cy.zoom()));
    });
    nodes
      .not(".frame")
      .nodes()
      .forEach((node) => {
        out.push(svgNode(node, cy.zoom(), defs));
      });
    return (
      '<svg xmlns="http://www.w3.org/2000/svg" width="' +
      w +
      '" height="' +
      h +
      '" viewBox="0 0 ' +
      w +
      " " +
      h +
      '"><defs>' +
      defs.join("") +
      '</defs><rect width="100%" height="100%" fill="' +
      ground +
      '"/>' +
      out.join("") +
      "</svg>"
    );
  }

  /**
   * @param {import("cytoscape").EdgeSingular} edge
   * @param {number} z
   */
  function svgEdge(edge, z) {
    const points = [
      edge.renderedSourceEndpoint(),
      ...(edge.hasClass("bent") ? edge.renderedSegmentPoints() : []),
      edge.renderedTargetEndpoint(),
    ];
    const colour = edge.style("line-color"),
      width = parseFloat(edge.style("width")) * z,
      opacity = edge.style("opacity");
    const dashes = edge.style("line-style") === "dashed" ? ` stroke-dasharray="${fixed(6 * z)} ${fixed(4 * z)}"` : "";
    let head = "";
    if (edge.style("target-arrow-shape") === "triangle") {
      const end = points[points.length - 1],
        from = points[points.length - 2];
      const far = Math.hypot(end.x - from.x, end.y - from.y) || 1,
        dx = (end.x - from.x) / far,
        dy = (end.y - from.y) / far;
      const long = Math.max(7 * z, 2.2 * width),
        wide = long / 2,
        x = end.x - dx * long,
        y = end.y - dy * long;
      head = `<polygon fill="${colour}" opacity="${opacity}" points="${[
        [end.x, end.y],
        [x - dy * wide, y + dx * wide],
        [x + dy * wide, y - dx * wide],
      ]
        .map((p) => p.map(fixed).join(","))
        .join(" ")}"/>`;
      points[points.length - 1] = { x: x, y: y };
    }
    return (
      '<polyline fill="none" stroke="' +
      colour +
      '" stroke-width="' +
      width.toFixed(2) +
      '"' +
      dashes +
      ' opacity="' +
      opacity +
      '" points="' +
      points.map((p) => `${fixed(p.x)},${fixed(p.y)}`).join(" ") +
      '"/>' +
      head
    );
  }

  /** @param {CyNode} node */
  const svgBox = (node) => ({
    x: node.renderedPosition().x - node.renderedWidth() / 2,
    y: node.renderedPosition().y - node.renderedHeight() / 2,
  });

  /**
   * @param {unknown} text
   * @param {number} x
   * @param {number} y
   * @param {number} size
   * @param {string} colour
   */
  function svgText(text, x, y, size, colour) {
    return (
      '<text x="' +
      fixed(x) +
      '" y="' +
      fixed(y) +
      '" font-family="Inter, system-ui, sans-serif" font-size="' +
      fixed(size) +
      '" fill="' +
      colour +
      '" text-anchor="middle" dominant-baseline="central">' +
      escaped(text) +
      "</text>"
    );
  }

  /**
   * @param {CyNode} node
   * @param {number} z
   * @param {string} fill
   * @param {string} more
   */
  function svgRect(node, z, fill, more) {
    const at = svgBox(node);
    return (
      '<rect x="' +
      fixed(at.x) +
      '" y="' +
      fixed(at.y) +
      '" width="' +
      fixed(node.renderedWidth()) +
      '" height="' +
      fixed(node.renderedHeight()) +
      '" rx="' +
      fixed(5 * z) +
      '" fill="' +
      fill +
      '" stroke="' +
      node.style("border-color") +
      '" stroke-width="' +
      fixed(parseFloat(node.style("border-width")) * z) +
      '"' +
      more +
      "/>"
    );
  }

  /**
   * @param {CyNode} node
   * @param {number} z
   */
  function svgFrame(node, z) {
    const dashes = ` fill-opacity="${node.style("background-opacity")}" stroke-dasharray="${fixed(4 * z)} ${fixed(3 * z)}"`;
    return (
      svgRect(node, z, node.style("background-color"), dashes) +
      svgText(
        node.data("label"),
        node.renderedPosition().x + node.data("beside") * z,
        svgBox(node).y + 11 * z,
        13 * z,
        node.style("color"),
      )
    );
  }

  /* A block on several devices has stripes, as on the screen. */
  /**
   * @param {CyNode} node
   * @param {number} z
   * @param {string[]} defs
   */
  function svgNode(node, z, defs) {
    let fill = node.style("background-color");
    if (node.hasClass("mixed")) {
      const stops = node.data("stops").split(" "),
        name = `stripes-${node.id()}`;
      defs.push(
        '<linearGradient id="' +
          name +
          '">' +
          node
            .data("colours")
            .split(" ")
            .map(
              (/** @type {string} */ colour, /** @type {number} */ i) => `<stop offset="${stops[i]}" stop-color="${colour}"/>`,
            )
            .join("") +
          "</linearGradient>",
      );
      fill = `url(#${name})`;
    }
    const far = node.hasClass("far"),
      lines = far ? [editor.short(String(node.data("brief")), 13)] : String(node.data("label")).split("\n"),
      size = far ? 20 : 12,
      p = node.renderedPosition();
    return `<g>${svgRect(node, z, fill, "")}${lines
      .map((line, k) => svgText(line, p.x, p.y + (k - (lines.length - 1) / 2) * 15 * z, size * z, node.style("color")))
      .join("")}</g>`;
  }

  editor.provide({ picture });
})(window.hetero);
