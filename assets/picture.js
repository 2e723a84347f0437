/* A picture of the view or of the whole graph: PNG as Cytoscape draws it, SVG as shapes. */

const LONGEST = 8000, // pixels of a side; browsers draw no canvas that is much larger
  SHARPEST = 2;

/** @type {Hetero["picture"]} */
function picture(what) {
  const cy = page.cy;
  if (!cy) return;
  const [form, whole] = what.split(" "),
    ground = getComputedStyle(document.body).getPropertyValue("--ground").trim();
  const [blob, words] =
    form === "svg" ? [svgOf(cy, ground, Boolean(whole)), ""] : whole ? pngOfAll(cy, ground) : [pngOf(cy, ground), ""];
  const name = (editor.one(".model-name").textContent || "").replace(/\.[a-z]+$/, "").replaceAll("/", "-") || "view";
  editor.tell(`Downloaded ${editor.save(blob, `${name}${whole ? "-graph" : ""}.${form}`)}.${words}`);
}

/** @param {Cy} cy @param {string} bg */
const pngOf = (cy, bg) => cy.png({ output: "blob", full: false, scale: 2, bg });

/* As large as the longest side allows; names are those that can be read at this size. */
/** @param {Cy} cy @param {string} bg @returns {[Blob, string]} and how large it is, in words */
function pngOfAll(cy, bg) {
  const { w, h } = cy.elements().boundingBox(),
    scale = Math.min(SHARPEST, LONGEST / Math.max(w, h)),
    far = window.heteroFar(scale),
    nodes = cy.nodes().not(".frame"),
    shapes = far.far ? cy.collection() : editor.shapedEdges(cy.edges(":visible")).not(".shaped");
  cy.batch(() => {
    editor.showFrom(nodes, far);
    shapes.addClass("shaped");
  });
  const blob = cy.png({ output: "blob", full: true, scale, bg });
  cy.batch(() => {
    editor.showFrom(nodes, page.far);
    shapes.removeClass("shaped");
  });
  const size = [w, h].map((side) => editor.grouped(Math.round(side * scale))).join(" × ");
  const limit = scale < SHARPEST ? `: no side is longer than ${editor.grouped(LONGEST)}. SVG has no such limit` : "";
  return [blob, ` The picture has ${size} pixels${limit}.`];
}

/** @type {Record<string, string>} */
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** @param {unknown} text */
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ENTITIES[c]);

/** @param {number} number */
const fixed = (number) => number.toFixed(1);

/** @param {Point[]} points */
const svgPoints = (points) => points.map(({ x, y }) => `${fixed(x)},${fixed(y)}`).join(" ");

/* Shapes that can be scaled and edited, of what the viewport shows or of all, in the graph's own coordinates. */
/** @param {Cy} cy @param {string} ground @param {boolean} whole */
function svgOf(cy, ground, whole) {
  const all = cy.elements().boundingBox(),
    margin = 16,
    box = whole ? { x1: all.x1 - margin, y1: all.y1 - margin, w: all.w + 2 * margin, h: all.h + 2 * margin } : cy.extent(),
    z = whole ? 1 : cy.zoom(),
    inside = (/** @type {Bounds} */ b) => b.x2 > box.x1 && b.y2 > box.y1 && b.x1 < box.x1 + box.w && b.y1 < box.y1 + box.h;
  const bare = { includeLabels: false, includeUnderlays: false, includeOverlays: false },
    /** @type {string[]} */
    defs = [],
    /** @type {string[]} */
    out = [];
  const nodes = cy.nodes().filter((node) => inside(node.boundingBox(bare)));
  out.push(...nodes.filter(".frame").nodes().map(svgFrame));
  const shaped = whole ? editor.shapedEdges(cy.edges()) : cy.edges(".shaped");
  cy.edges().forEach((edge) => {
    if (edge.style("visibility") === "visible" && edge.style("display") !== "none" && inside(edge.boundingBox()))
      out.push(svgEdge(edge, shaped.contains(edge)));
  });
  const others = nodes.not(".frame").nodes();
  out.push(...others.map((node) => svgNode(node, defs, !whole && node.hasClass("far"))));
  const size = `width="${fixed(box.w * z)}" height="${fixed(box.h * z)}"`,
    part = [box.x1, box.y1, box.w, box.h].map(fixed),
    back = `<rect x="${part[0]}" y="${part[1]}" width="${part[2]}" height="${part[3]}" fill="${ground}"/>`,
    svg = `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="${part.join(" ")}"><defs>${defs.join("")}</defs>`;
  return new Blob([svg, back, ...out, "</svg>"], { type: "image/svg+xml" });
}

/** @param {CyEdge} edge @param {boolean} labelled */
function svgEdge(edge, labelled) {
  const points = editor.wayOf(edge),
    at = labelled && editor.pointAlong(points, edge.data("along"));
  const colour = edge.style("line-color"),
    width = parseFloat(edge.style("width")),
    opacity = edge.style("opacity");
  const dashes = edge.style("line-style") === "dashed" ? ' stroke-dasharray="6 4"' : "";
  let head = "";
  if (edge.style("target-arrow-shape") === "triangle") {
    const [from, end] = points.slice(-2);
    const far = Math.hypot(end.x - from.x, end.y - from.y) || 1,
      dx = (end.x - from.x) / far,
      dy = (end.y - from.y) / far;
    const long = Math.max(7, 2.2 * width),
      wide = long / 2,
      x = end.x - dx * long,
      y = end.y - dy * long;
    const corners = [end, { x: x - dy * wide, y: y + dx * wide }, { x: x + dy * wide, y: y - dx * wide }];
    head = `<polygon fill="${colour}" opacity="${opacity}" points="${svgPoints(corners)}"/>`;
    points[points.length - 1] = { x, y };
  }
  const { shape, aside, below } = edge.data(),
    [ink, around] = [edge.style("color"), edge.style("text-background-color")],
    look = `stroke="${colour}" stroke-width="${width.toFixed(2)}"${dashes} opacity="${opacity}"`,
    text = at ? svgText(shape, at.x + aside, at.y + below, 9.5, ink, around) : "";
  return `<polyline fill="none" ${look} points="${svgPoints(points)}"/>${head}${text}`;
}

/** @param {CyNode} node */
const svgBox = (node) => ({ x: node.position().x - node.width() / 2, y: node.position().y - node.height() / 2 });

/**
 * @param {unknown} text
 * @param {number} x
 * @param {number} y
 * @param {number} size
 * @param {string} colour
 * @param {string} [around] a colour that keeps lines off the letters
 */
const svgText = (text, x, y, size, colour, around) =>
  `<text x="${fixed(x)}" y="${fixed(y)}" font-family="Inter, system-ui, sans-serif" font-size="${fixed(size)}" fill="${colour}"${around ? ` stroke="${around}" stroke-width="3" paint-order="stroke"` : ""} text-anchor="middle" dominant-baseline="central">${escaped(text)}</text>`;

/** @param {CyNode} node @param {string} fill @param {string} more */
function svgRect(node, fill, more) {
  const at = svgBox(node),
    border = `stroke="${node.style("border-color")}" stroke-width="${fixed(parseFloat(node.style("border-width")))}"`;
  return `<rect x="${fixed(at.x)}" y="${fixed(at.y)}" width="${fixed(node.width())}" height="${fixed(node.height())}" rx="5" fill="${fill}" ${border}${more}/>`;
}

/** @param {CyNode} node */
function svgFrame(node) {
  const dashes = ` fill-opacity="${node.style("background-opacity")}" stroke-dasharray="4 3"`;
  return (
    svgRect(node, node.style("background-color"), dashes) +
    svgText(node.data("label"), node.position().x + node.data("beside"), svgBox(node).y + 11, 13, node.style("color"))
  );
}

/* A block on several devices has stripes at its bottom, as on the screen. */
/** @param {CyNode} node @param {string[]} defs @param {boolean} far */
function svgNode(node, defs, far) {
  let fill = node.style("background-color");
  if (node.hasClass("mixed")) {
    const stops = node.data("stops").split(" "),
      colours = /** @type {string[]} */ (node.data("colours").split(" ")),
      stripes = colours.map((colour, i) => `<stop offset="${stops[i]}" stop-color="${colour}"/>`),
      name = `stripes-${node.id()}`;
    defs.push(`<linearGradient id="${name}" x2="0" y2="1">${stripes.join("")}</linearGradient>`);
    fill = `url(#${name})`;
  }
  const lines = far ? [String(node.data("brief"))] : String(node.data("label")).split("\n"),
    size = far ? parseFloat(node.style("font-size")) : 12,
    p = node.position(),
    above = node.hasClass("mixed") ? 3 : 0;
  const texts = lines.map((line, k) =>
    svgText(line, p.x, p.y - above + (k - (lines.length - 1) / 2) * 15, size, node.style("color")),
  );
  return `<g>${svgRect(node, fill, "")}${texts.join("")}</g>`;
}

editor.provide({ picture });
