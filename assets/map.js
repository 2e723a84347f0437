/* The map beside the graph: the whole model on a plain canvas. Ops in the viewport only, edges and names where they can be seen. */

const LETTERS = 20; // that an op has room for

/* Positions and edges of a model. */
class Scene {
  /** @param {Messages.MapData} data */
  constructor(data) {
    this.count = data.count;
    this.width = data.width;
    this.height = data.height;
    this.types = data.types;
    this.x = editor.decode(data.x, Float32Array);
    this.y = editor.decode(data.y, Float32Array);
    this.source = editor.decode(data.source, Uint32Array);
    this.target = editor.decode(data.target, Uint32Array);
    this.type = editor.decode(data.type, Uint16Array);
    const [x, y] = [this.x.toSorted(), this.y.toSorted()];
    this.bounds = {
      x0: x[0] - this.width,
      x1: x[this.count - 1] + this.width,
      y0: y[0] - this.height,
      y1: y[this.count - 1] + this.height,
    };
    this.isWide = x[this.count - 1] - x[0] > y[this.count - 1] - y[0]; // a model that stands in columns
    this.rows = new Uint32Array(this.y.keys()).sort((a, b) => this.y[a] - this.y[b]); // only the viewport is looked at
  }

  /* The same scene for a box of another shape: a long thin model is drawn as wide as the box, so that ops can be hit. */
  /** @param {number} aspect @returns {Scene} */
  stretched(aspect) {
    const b = this.bounds,
      k = (aspect * (b.y1 - b.y0)) / (b.x1 - b.x0);
    if (k < 1.5) return this;
    const wide = Object.assign(Object.create(Scene.prototype), this);
    wide.x = this.x.map((x) => x * k);
    wide.width = this.width * k;
    wide.bounds = { ...b, x0: b.x0 * k, x1: b.x1 * k };
    return wide;
  }

  /** @param {number} y */
  firstBelow(y) {
    let low = 0,
      high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.y[this.rows[middle]] < y) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The model, once it was asked for, and the document that it is of. @type {Scene} */
let ofModel;
let sceneOf = "";
/** What is drawn of it: as wide as the canvas. @type {Scene | null} */
let scene = null;

let zoom = 1,
  left = 0,
  top = 0,
  isDue = false; // it is drawn at the next frame
/** What is drawn around ops, in pixels of the canvas.
 * @type {{ x0: number, y0: number, x1: number, y1: number } | null} */
let box = null;

const canvasOf = () => /** @type {HTMLCanvasElement | null} */ (editor.byId("map"));
const resized = new ResizeObserver(draw);

function toggleMap() {
  const around = editor.byId("map-box"),
    canvas = canvasOf();
  if (!around || !canvas) return;
  around.hidden = !around.hidden;
  if (around.hidden) return;
  Object.assign(canvas, { onpointerdown: press, onpointermove: drag, onpointerup: release, onwheel: turn });
  resized.observe(canvas);
  if (sceneOf === page.view.document) {
    showScene();
    return;
  }
  scene = null; // of another model
  editor.one("#map-note").textContent = "Drawing the map …";
  askScene();
}

async function askScene() {
  const data = await editor.ask("map").catch(editor.complain);
  if (!data) return;
  sceneOf = page.view.document;
  ofModel = new Scene(data);
  editor.one("#map-note").textContent = "";
  if (!editor.one("#map-box").hidden) showScene();
}

/* All of it. */
function showScene() {
  editor.one("#map-box").classList.toggle("wide", ofModel.isWide);
  const { clientWidth: w, clientHeight: h } = editor.one("#map");
  scene = ofModel.stretched(w / h);
  const { x0, x1, y0, y1 } = scene.bounds;
  zoom = Math.min(w / (x1 - x0), h / (y1 - y0), 1.2);
  left = (x0 + x1) / 2 - w / 2 / zoom;
  top = (y0 + y1) / 2 - h / 2 / zoom;
  draw();
}

function draw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    paint();
  });
}

/** @param {number} i @returns {Look} */
const look = (i) => ({
  ...editor.lookOf(page.view, i)[0],
  faint: page.emphasis !== null && !page.emphasis.has(page.view.ops[i]),
});

function paint() {
  const c = canvasOf();
  if (!c || !scene || !c.clientWidth) return;
  const w = c.clientWidth,
    h = c.clientHeight,
    scale = window.devicePixelRatio || 1;
  if (c.width !== Math.round(w * scale) || c.height !== Math.round(h * scale)) {
    c.width = Math.round(w * scale);
    c.height = Math.round(h * scale);
  }
  const g = /** @type {CanvasRenderingContext2D} */ (c.getContext("2d")),
    style = getComputedStyle(document.body),
    colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.fillStyle = colour("--raised");
  g.fillRect(0, 0, w, h);
  const from = scene.firstBelow(top - scene.height),
    to = scene.firstBelow(top + h / zoom + scene.height);
  if (zoom > 0.05 && to - from < 4000) paintEdges(g, scene, h, colour("--edge"));
  paintOps(g, scene, from, to, w, colour("--soft"));
  g.lineWidth = 2;
  g.strokeStyle = colour("--accent");
  const f = frameOnMap(scene);
  if (f)
    g.strokeRect(
      (f.x1 - left) * zoom,
      (f.y1 - top) * zoom,
      Math.max((f.x2 - f.x1) * zoom, 4),
      Math.max((f.y2 - f.y1) * zoom, 4),
    );
  if (box) g.strokeRect(box.x0, box.y0, box.x1 - box.x0, box.y1 - box.y0); // canvases take rectangles of negative size, too
}

/* Ops of one colour are one path; far out they are at least a pixel and a half high. */
/**
 * @param {CanvasRenderingContext2D} g
 * @param {Scene} s
 * @param {number} from
 * @param {number} to
 * @param {number} w
 * @param {string} soft the ink on what is faint
 */
function paintOps(g, s, from, to, w, soft) {
  const high = Math.max(s.height * zoom, 1.5),
    wide = Math.max(s.width * zoom, 1.5),
    paths = new Map();
  const step = Math.max(1, Math.floor((to - from) / 60000)),
    right = left + w / zoom,
    named = zoom > 0.42;
  for (let k = from; k < to; k += step) {
    const i = s.rows[k];
    if (s.x[i] + s.width < left || s.x[i] - s.width > right) continue;
    const is = look(i),
      key = is.faint ? `${is.fill}~` : is.fill;
    let path = paths.get(key);
    if (!path) {
      path = { shape: new Path2D(), fill: is.fill, ink: is.faint ? soft : is.ink, faint: is.faint, names: [] };
      paths.set(key, path);
    }
    path.shape.rect((s.x[i] - left) * zoom - wide / 2, (s.y[i] - top) * zoom - high / 2, wide, high);
    if (named) path.names.push(i);
  }
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.font = `${12 * zoom}px Inter, system-ui, sans-serif`;
  for (const { shape, fill, ink, faint, names } of paths.values()) {
    g.globalAlpha = faint ? 0.22 : 1;
    g.fillStyle = fill;
    g.fill(shape);
    g.globalAlpha = 1; // names are readable on what is faint, too
    g.fillStyle = ink;
    for (const i of names) g.fillText(editor.short(s.types[s.type[i]], LETTERS), (s.x[i] - left) * zoom, (s.y[i] - top) * zoom);
  }
}

/** @param {CanvasRenderingContext2D} g @param {Scene} s @param {number} h @param {string} colour */
function paintEdges(g, s, h, colour) {
  const bottom = top + h / zoom;
  g.strokeStyle = colour;
  g.lineWidth = 1;
  g.beginPath();
  for (let e = 0; e < s.source.length; e++) {
    const a = s.source[e],
      b = s.target[e];
    if (s.y[b] < top || s.y[a] > bottom) continue;
    g.moveTo((s.x[a] - left) * zoom, (s.y[a] - top) * zoom);
    g.lineTo((s.x[b] - left) * zoom, (s.y[b] - top) * zoom);
  }
  g.stroke();
}

/** Where the ops that the canvas shows lie on the map. @param {Scene} s */
function frameOnMap(s) {
  const cy = page.cy;
  if (!cy) return null;
  const view = cy.extent();
  let x1 = Infinity,
    x2 = -Infinity,
    y1 = Infinity,
    y2 = -Infinity;
  cy.nodes(".op").forEach((n) => {
    const p = n.position();
    if (p.x < view.x1 || p.x > view.x2 || p.y < view.y1 || p.y > view.y2) return;
    const ops = editor.opsOf(n),
      step = Math.max(1, Math.floor(ops.length / 40));
    for (let k = 0; k < ops.length; k += step) {
      const i = page.index.get(ops[k]);
      x1 = Math.min(x1, s.x[i]);
      x2 = Math.max(x2, s.x[i]);
      y1 = Math.min(y1, s.y[i]);
      y2 = Math.max(y2, s.y[i]);
    }
  });
  return x1 > x2 ? null : { x1: x1 - s.width / 2, x2: x2 + s.width / 2, y1: y1 - s.height, y2: y2 + s.height };
}

/** A place of the canvas in the coordinates of the scene. @param {number} x @param {number} y */
const at = (x, y) => ({ x: x / zoom + left, y: y / zoom + top });

/** The op at a place of the canvas, if there is one. @param {Scene} s @param {number} x @param {number} y */
function nearest(s, x, y) {
  const w = at(x, y),
    reach = Math.max(s.height, 12 / zoom);
  let best = s.count,
    distance = Infinity;
  for (let k = s.firstBelow(w.y - reach); k < s.count; k++) {
    const i = s.rows[k];
    if (s.y[i] > w.y + reach) break;
    const dx = Math.max(Math.abs(s.x[i] - w.x) - s.width / 2, 0),
      dy = s.y[i] - w.y,
      d = dx * dx + dy * dy;
    if (d < distance && dx < 30 / zoom) {
      distance = d;
      best = i;
    }
  }
  return page.view.ops.slice(best, best + 1);
}

/** The ops in a box. @param {Scene} s @param {NonNullable<typeof box>} box */
function inside(s, { x0, y0, x1, y1 }) {
  const a = at(Math.min(x0, x1), Math.min(y0, y1)),
    b = at(Math.max(x0, x1), Math.max(y0, y1)),
    found = [];
  for (let k = s.firstBelow(a.y); k < s.count && s.y[s.rows[k]] <= b.y; k++) {
    const i = s.rows[k];
    if (s.x[i] >= a.x && s.x[i] <= b.x) found.push(page.view.ops[i]);
  }
  return found;
}

/** Where a drag began. @type {{ x: number, y: number, left: number, top: number, moved: boolean, boxing: boolean } | null} */
let from = null;

/** @param {PointerEvent} event */
function press(event) {
  if (event.button || !scene) return;
  from = { x: event.offsetX, y: event.offsetY, left, top, moved: false, boxing: event.shiftKey };
  editor.targetOf(event).setPointerCapture(event.pointerId);
}

/** @param {PointerEvent} event */
function drag({ offsetX: x, offsetY: y }) {
  if (!from) return;
  if (Math.abs(x - from.x) + Math.abs(y - from.y) > 3) from.moved = true;
  if (from.boxing) box = { x0: from.x, y0: from.y, x1: x, y1: y };
  else {
    left = from.left - (x - from.x) / zoom;
    top = from.top - (y - from.y) / zoom;
  }
  draw();
}

function release() {
  if (!from || !scene) return;
  const boxed = from.boxing && box,
    ops = boxed ? inside(scene, boxed) : from.moved ? [] : nearest(scene, from.x, from.y);
  if (editor.painting()) {
    if (ops.length) editor.paintOrUnpin(ops);
  } else if (boxed) editor.set("selection", { data: { ops, select: true } });
  else if (ops.length) editor.bringOp(ops[0]);
  from = box = null;
  draw();
}

/** @param {WheelEvent} event */
function turn(event) {
  event.preventDefault();
  const { offsetX: x, offsetY: y } = event,
    w = at(x, y);
  zoom = Math.min(4, Math.max(zoom * Math.exp(-event.deltaY * 0.0015), 0.0005));
  left = w.x - x / zoom;
  top = w.y - y / zoom;
  draw();
}

window.heteroMap = {
  draw,
  look,
  get ready() {
    return scene !== null;
  },
  get count() {
    return scene?.count;
  },
};
editor.provide({ toggleMap });
