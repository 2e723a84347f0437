/* A whole model on a plain canvas: ops in the viewport only, edges and names where they can be seen.
   The map is a chart of it. */

const LETTERS = 20; // that an op has room for

/** @param {string} text @param {new (buffer: ArrayBuffer) => any} Type */
const decode = (text, Type) => new Type(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

/* Positions and edges; the same for all charts of a model. */
class Scene {
  /** @param {Messages.MapData} data */
  constructor(data) {
    this.count = data.count;
    this.width = data.width;
    this.height = data.height;
    this.types = data.types;
    this.x = /** @type {Float32Array} */ (decode(data.x, Float32Array));
    this.y = /** @type {Float32Array} */ (decode(data.y, Float32Array));
    this.source = /** @type {Uint32Array} */ (decode(data.source, Uint32Array));
    this.target = /** @type {Uint32Array} */ (decode(data.target, Uint32Array));
    this.type = /** @type {Uint16Array} */ (decode(data.type, Uint16Array));
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
  /** @param {number} aspect */
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

class Chart {
  /* ``look(i)`` gives fill, ink and a second line for an op; other hooks are optional. */
  constructor() {
    this.scene = /** @type {Scene} */ (/** @type {unknown} */ (null));
    this.canvas = /** @type {HTMLCanvasElement & { chart?: Chart }} */ (/** @type {unknown} */ (null));
    this.zoom = 1;
    this.left = this.top = 0;
    this.box = /** @type {{ x0: number, y0: number, x1: number, y1: number } | null} */ (null);
    this.frame = 0;
    this.look = /** @type {((op: number) => Look) | null} */ (null);
    this.onTap = /** @type {((op: number) => void) | undefined} */ (undefined);
    this.onBox = /** @type {((ops: number[]) => void) | undefined} */ (undefined);
    this.frameOf = /** @type {(() => Bounds | null) | undefined} */ (undefined);
  }

  get ready() {
    return this.scene !== null;
  }
  get count() {
    return this.scene.count;
  }

  /** @param {HTMLCanvasElement & { chart?: Chart }} canvas */
  show(canvas) {
    this.canvas = canvas;
    if (!canvas || canvas.chart === this) return;
    canvas.chart = this;
    listen(canvas, this);
  }

  fit() {
    const c = this.canvas,
      b = this.scene?.bounds;
    if (!c || !b) return;
    const w = c.clientWidth,
      h = c.clientHeight;
    this.zoom = Math.min(w / (b.x1 - b.x0), h / (b.y1 - b.y0), 1.2);
    this.left = (b.x0 + b.x1) / 2 - w / 2 / this.zoom;
    this.top = (b.y0 + b.y1) / 2 - h / 2 / this.zoom;
    this.draw();
  }

  draw() {
    if (!this.frame)
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.paint();
      });
  }

  paint() {
    const c = this.canvas,
      s = this.scene;
    if (!c || !s || !this.look || !c.clientWidth) return;
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
    const z = this.zoom,
      from = s.firstBelow(this.top - s.height),
      to = s.firstBelow(this.top + h / z + s.height);
    if (z > 0.05 && to - from < 4000) this.edges(g, h, colour("--edge"));
    this.ops(g, from, to, w, this.look);
    g.lineWidth = 2;
    g.strokeStyle = colour("--accent");
    const f = this.frameOf?.(),
      b = this.box; // canvases take rectangles of negative size, too
    if (f)
      g.strokeRect(
        (f.x1 - this.left) * z,
        (f.y1 - this.top) * z,
        Math.max((f.x2 - f.x1) * z, 4),
        Math.max((f.y2 - f.y1) * z, 4),
      );
    if (b) g.strokeRect(b.x0, b.y0, b.x1 - b.x0, b.y1 - b.y0);
  }

  /* Ops of one colour are one path; far out they are at least a pixel and a half high. */
  /**
   * @param {CanvasRenderingContext2D} g
   * @param {number} from
   * @param {number} to
   * @param {number} w
   * @param {(op: number) => Look} look
   */
  ops(g, from, to, w, look) {
    const s = this.scene,
      z = this.zoom,
      high = Math.max(s.height * z, 1.5),
      wide = Math.max(s.width * z, 1.5),
      paths = new Map();
    const step = Math.max(1, Math.floor((to - from) / 60000)),
      right = this.left + w / z,
      named = z > 0.42;
    for (let k = from; k < to; k += step) {
      const i = s.rows[k];
      if (s.x[i] + s.width < this.left || s.x[i] - s.width > right) continue;
      const is = look(i),
        key = is.faint ? `${is.fill}~` : is.fill;
      let path = paths.get(key);
      if (!path) {
        path = { shape: new Path2D(), fill: is.fill, faint: is.faint, names: [] };
        paths.set(key, path);
      }
      const x = (s.x[i] - this.left) * z - wide / 2,
        y = (s.y[i] - this.top) * z - high / 2;
      path.shape.rect(x, y, wide, high);
      if (named) path.names.push([i, is]);
    }
    g.textAlign = "center";
    g.textBaseline = "middle";
    g.font = `${12 * z}px Inter, system-ui, sans-serif`;
    const style = getComputedStyle(document.body),
      soft = style.getPropertyValue("--soft").trim();
    paths.forEach((path) => {
      g.globalAlpha = path.faint ? 0.22 : 1;
      g.fillStyle = path.fill;
      g.fill(path.shape);
      g.globalAlpha = 1; // names are readable on what is faint, too
      path.names.forEach((/** @type {[number, Look]} */ [i, is]) => {
        const x = (s.x[i] - this.left) * z,
          y = (s.y[i] - this.top) * z,
          name = editor.short(s.types[s.type[i]], LETTERS);
        g.fillStyle = path.faint ? soft : is.ink;
        g.fillText(name, x, y);
      });
    });
  }

  /** @param {CanvasRenderingContext2D} g @param {number} h @param {string} colour */
  edges(g, h, colour) {
    const s = this.scene,
      z = this.zoom,
      bottom = this.top + h / z;
    g.strokeStyle = colour;
    g.lineWidth = 1;
    g.beginPath();
    for (let e = 0; e < s.source.length; e++) {
      const a = s.source[e],
        b = s.target[e];
      if (s.y[b] < this.top || s.y[a] > bottom) continue;
      g.moveTo((s.x[a] - this.left) * z, (s.y[a] - this.top) * z);
      g.lineTo((s.x[b] - this.left) * z, (s.y[b] - this.top) * z);
    }
    g.stroke();
  }

  /** @param {{ px: number, py: number }} p */
  at(p) {
    return { x: p.px / this.zoom + this.left, y: p.py / this.zoom + this.top };
  }

  /** @param {{ px: number, py: number }} p */
  nearest(p) {
    const s = this.scene,
      w = this.at(p),
      reach = Math.max(s.height, 12 / this.zoom);
    let best = -1,
      distance = Infinity;
    for (let k = s.firstBelow(w.y - reach); k < s.count; k++) {
      const i = s.rows[k];
      if (s.y[i] > w.y + reach) break;
      const dx = Math.max(Math.abs(s.x[i] - w.x) - s.width / 2, 0),
        dy = s.y[i] - w.y,
        d = dx * dx + dy * dy;
      if (d < distance && dx < 30 / this.zoom) {
        distance = d;
        best = i;
      }
    }
    return best;
  }

  /** @param {{ x0: number, y0: number, x1: number, y1: number }} box */
  inside(box) {
    const s = this.scene,
      a = this.at({ px: Math.min(box.x0, box.x1), py: Math.min(box.y0, box.y1) });
    const b = this.at({ px: Math.max(box.x0, box.x1), py: Math.max(box.y0, box.y1) }),
      found = [];
    for (let k = s.firstBelow(a.y); k < s.count && s.y[s.rows[k]] <= b.y; k++) {
      const i = s.rows[k];
      if (s.x[i] >= a.x && s.x[i] <= b.x) found.push(i);
    }
    return found;
  }
}

/** @param {HTMLCanvasElement} canvas @param {Chart} chart */
function listen(canvas, chart) {
  /** @param {MouseEvent} event */
  const at = (event) => {
    const r = canvas.getBoundingClientRect();
    return { px: event.clientX - r.left, py: event.clientY - r.top };
  };
  /** @type {{ p: { px: number, py: number }, left: number, top: number, moved: boolean, boxing: boolean } | null} */
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button || !chart.ready) return;
    drag = { p: at(event), left: chart.left, top: chart.top, moved: false, boxing: event.shiftKey };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const p = at(event);
    if (Math.abs(p.px - drag.p.px) + Math.abs(p.py - drag.p.py) > 3) drag.moved = true;
    if (drag.boxing) chart.box = { x0: drag.p.px, y0: drag.p.py, x1: p.px, y1: p.py };
    else {
      chart.left = drag.left - (p.px - drag.p.px) / chart.zoom;
      chart.top = drag.top - (p.py - drag.p.py) / chart.zoom;
    }
    chart.draw();
  });
  canvas.addEventListener("pointerup", () => {
    if (!drag) return;
    if (drag.boxing && chart.box) chart.onBox?.(chart.inside(chart.box));
    else if (!drag.moved && chart.onTap) {
      const i = chart.nearest(drag.p);
      if (i >= 0) chart.onTap(i);
    }
    drag = chart.box = null;
    chart.draw();
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      if (!chart.ready) return;
      const p = at(event),
        w = chart.at(p);
      chart.zoom = Math.min(4, Math.max(chart.zoom * Math.exp(-event.deltaY * 0.0015), 0.0005));
      chart.left = w.x - p.px / chart.zoom;
      chart.top = w.y - p.py / chart.zoom;
      chart.draw();
    },
    { passive: false },
  );
  new ResizeObserver(() => chart.draw()).observe(canvas);
}

editor.provide({ Scene, Chart, decode });
