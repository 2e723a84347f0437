/* What the pointer is on: a tooltip over ops, blocks and edges, with what the server knows of them; the ops of a device stand out. */

const MOST_OPS = 4000, // that are asked for
  STATES = 4; // that a tooltip names
let timer = 0;

/** @type {Hetero["hoverOver"]} */
function hoverOver(target) {
  clearTimeout(timer);
  page.hoverPlace = place();
  timer = window.setTimeout(async () => {
    const states = target.data("states"),
      query = states ? "" : queryOf(target);
    if (!states && !query) return;
    page.hovered = target;
    const content = states ? statesInWords(states) : (await editor.ask(`hover?${query}`).catch(() => null))?.content; // a tooltip less is no fault
    if (page.hovered === target) show(content);
  }, 320);
}

/** The ops of a node, or what an edge is between; "" for an edge of an input or an output. @param {CyNode | CyEdge} target */
function queryOf(target) {
  if (target.isNode()) return `ops=${editor.rangesOf(editor.opsOf(target).slice(0, MOST_OPS))}`;
  const ends = [target.source(), target.target()].map((node) => editor.opId(node.id())),
    pairs = /** @type {number[][]} */ (target.data("pairs") || [ends]);
  return pairs.flat().some((op) => op < 0) ? "" : `pairs=${pairs.map((pair) => pair.join("-"))}`;
}

/** @param {string} type @param {unknown} children */
const element = (type, children) => ({ namespace: "dash_html_components", type, props: { children } });

/** @param {string[][]} states */
const statesInWords = (states) => [
  ...states
    .slice(0, STATES)
    .map(([output, input]) => element("Div", [element("B", output), element("Div", `The next step reads it as ${input}`)])),
  ...(states.length > STATES ? [element("Div", `and ${states.length - STATES} more`)] : []),
];

const place = () => `${page.cy.zoom()} ${page.cy.pan().x} ${page.cy.pan().y}`;

/* Cytoscape also tells of viewports that did not change. */
function hoverMoved() {
  if (place() !== page.hoverPlace) hoverOut();
}

function hoverOut() {
  clearTimeout(timer);
  page.hovered = null;
  const box = editor.byId("hover");
  if (box) box.hidden = true;
}

/* The width of the canvas that no card covers on the right. */
function room() {
  const canvas = editor.one("#graph").getBoundingClientRect(),
    card = editor.byId("inspector")?.getBoundingClientRect();
  return card?.width && card.left > canvas.left ? Math.min(canvas.width, card.left - canvas.left) : canvas.width;
}

/** The answer came: beside what it is about, within the canvas. @param {unknown} content */
function show(content) {
  const box = editor.byId("hover"),
    target = page.hovered;
  if (!box || !target || !content) return;
  editor.set("hover", { children: content });
  box.hidden = false;
  setTimeout(() => editor.placeBeside(box, target, [0, 0], room(), page.cy.height()), 0);
}

document.addEventListener("pointerout", (event) => {
  if (page.hovered && !(/** @type {Element | null} */ (event.relatedTarget)?.closest("#graph"))) hoverOut();
});

/* With the pointer or the focus on a device or on an entry of the legend, its ops stand out: in graph, ribbon and map. */
/** @type {Hetero["emphasise"]} */
function emphasise(ops) {
  if (!page.cy || !page.view || (!ops && !page.emphasis)) return;
  const shown = ops ? new Set(ops) : null;
  page.emphasis = shown;
  page.cy.batch(() => {
    page.cy.nodes(".op").forEach((node) => {
      const away = shown !== null && !editor.opsOf(node).some((op) => shown.has(op));
      if (node.hasClass("faded") !== away) node.toggleClass("faded", away);
    });
  });
  editor.drawRibbon();
  window.heteroMap.draw();
}

let of = "";

/** @param {Event} event */
function follow(event) {
  const entry = editor.around(event, "[data-row-device], [data-legend-ops]"),
    device = entry?.dataset.rowDevice,
    now = entry ? `${device ?? entry.dataset.legendOps}` : "";
  if (now === of) return;
  of = now;
  if (!entry) emphasise(null);
  else if (device !== undefined) emphasise(page.view.ops.filter((_op, i) => page.view.device[i] === Number(device)));
  else emphasise(editor.opsIn(entry.dataset.legendOps || ""));
}

document.addEventListener("pointerover", follow);
document.addEventListener("focusin", follow);

editor.provide({ emphasise, hoverOver, hoverMoved, hoverOut });
