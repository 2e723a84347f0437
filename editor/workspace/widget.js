/* The notebook widget: draws the graph of a plan, and sends strokes of the brush to Python, which answers with new colours.
   Names are untrusted: they are text of elements and of the canvas, and never markup. */

/** @typedef {{ x: number[], y: number[], edges: [number, number][], bends: Record<string, [number, number][]>, type: string[],
 *   name: string[], key: string[] }} Drawing */
/** @typedef {{ name: string, fill: string, ink: string, ops: number, planned: boolean }} Device */
/** @typedef {{ title: string, devices: Device[], device: number[], part: number[], reason: number[], reasons: string[],
 *   pins: number[], status: string, can_undo: boolean }} Look */
/** @typedef {{ get(name: string): any, on(event: string, call: () => void): void,
 *   off(event: string, call: () => void): void, send(message: any): void }} Model */

const W = 128,
  H = 38,
  MOVE = -2,
  UNPIN = -1,
  READABLE = 0.42; // zoom from which on labels are drawn

/** @param {string} name @param {string} [text] @param {string} [classes] */
function element(name, text = "", classes = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = classes;
  return made;
}

/** @param {number} value @param {number} low @param {number} high */
const within = (value, low, high) => Math.max(low, Math.min(high, value));

/** @param {{ model: Model, el: HTMLElement }} given */
function render({ model, el }) {
  const root = element("div", "", "hetero-plan"),
    tools = element("div"),
    frame = element("div", "", "frame"),
    canvas = document.createElement("canvas"),
    tip = element("div"),
    status = element("div", "", "status"),
    figures = element("div"),
    refused = element("div", "", "refused"),
    context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  let drawing = /** @type {Drawing} */ (model.get("_drawing")),
    look = /** @type {Look} */ (model.get("_look")),
    brush = MOVE,
    waiting = 0, // strokes that Python has not answered
    chosen = -1, // by the arrow keys
    moved = false, // whether the view is no longer the whole graph
    aimed = false, // whether the pointer moved here, and not the notebook below it
    zoom = 1,
    left = 0,
    top = 0,
    asked = 0,
    /** @type {{ x: number, y: number, left: number, top: number, pans: boolean, far: boolean, toX: number, toY: number } | null} */
    drag = null;

  /* ---- brush and status ---- */
  /** @param {string} label @param {() => void} act @param {string} title */
  function button(label, act, title) {
    const made = /** @type {HTMLButtonElement} */ (element("button"));
    made.type = "button";
    made.title = title;
    made.append(element("b", label));
    made.onclick = act;
    return made;
  }

  /** @param {number} number @param {string} label @param {string} title */
  function choice(number, label, title) {
    const made = button(label, () => take(number), title);
    made.dataset.brush = String(number);
    const device = look.devices[number];
    if (device) {
      const swatch = element("i");
      swatch.style.background = device.fill;
      made.prepend(swatch);
      made.append(element("small", device.ops.toLocaleString("en")));
    }
    return made;
  }

  function showTools() {
    const focused = tools.contains(document.activeElement)
      ? [...tools.children].indexOf(/** @type {any} */ (document.activeElement))
      : -1;
    const undo = button("Undo", () => send({ do: "undo" }), "Show the plan before the last change");
    undo.disabled = !look.can_undo;
    tools.replaceChildren(
      choice(MOVE, "Move", "Drag moves the graph (V)"),
      ...look.devices.map((d, i) =>
        choice(i, d.name, `Pin ops to ${d.name}${d.planned ? " (planned)" : ""}: click one, or drag a rectangle (${i + 1})`),
      ),
      choice(UNPIN, "Unpin", "Let ops go where the policy places them: click one, or drag a rectangle (U)"),
      element("span", "", "gap"),
      undo,
      button("Fit", fit, "Show the whole graph (F)"),
    );
    if (focused >= 0) /** @type {HTMLElement} */ (tools.children[focused])?.focus();
    take(within(brush, MOVE, look.devices.length - 1));
  }

  /** @param {number} number */
  function take(number) {
    brush = number;
    for (const each of tools.querySelectorAll("button[data-brush]"))
      each.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (each).dataset.brush === String(number)));
    canvas.classList.toggle("paints", number !== MOVE);
  }

  /** @param {any} message */
  function send(message) {
    waiting += 1;
    showStatus();
    model.send(message);
  }

  function showStatus() {
    figures.textContent = waiting ? `${look.status} · solving …` : look.status;
    refused.textContent = waiting ? "" : model.get("refused");
  }

  /** @param {number[]} ops */
  function paint(ops) {
    if (brush !== MOVE && ops.length) send({ ops, device: brush === UNPIN ? null : brush });
  }

  /* ---- the graph ---- */
  /** @param {number} x @param {number} y */
  const at = (x, y) => [x / zoom + left, y / zoom + top];

  /** The ops that a rectangle of the canvas touches. @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 */
  function touched(x0, y0, x1, y1) {
    const [a, b] = at(Math.min(x0, x1), Math.min(y0, y1)),
      [c, d] = at(Math.max(x0, x1), Math.max(y0, y1));
    return [...drawing.x.keys()].filter((i) => {
      const x = drawing.x[i],
        y = drawing.y[i];
      return x + W / 2 >= a && x - W / 2 <= c && y + H / 2 >= b && y - H / 2 <= d;
    });
  }

  function fit() {
    let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
    /** @param {number} x @param {number} y @param {number} w @param {number} h */
    const grow = (x, y, w, h) => {
      x0 = Math.min(x0, x - w);
      x1 = Math.max(x1, x + w);
      y0 = Math.min(y0, y - h);
      y1 = Math.max(y1, y + h);
    };
    drawing.x.forEach((x, i) => grow(x, drawing.y[i], W / 2 + 16, H / 2 + 16));
    for (const points of Object.values(drawing.bends)) for (const [x, y] of points) grow(x, y, 6, 6);
    if (x0 > x1) [x0, y0, x1, y1] = [0, 0, 1, 1];
    zoom = Math.min(canvas.clientWidth / (x1 - x0), canvas.clientHeight / (y1 - y0), 1.2) || 1;
    left = (x0 + x1) / 2 - canvas.clientWidth / 2 / zoom;
    top = (y0 + y1) / 2 - canvas.clientHeight / 2 / zoom;
    moved = false;
    redraw();
  }

  /** @param {number} factor @param {number} x @param {number} y */
  function zoomAt(factor, x, y) {
    const [gx, gy] = at(x, y);
    zoom = within(zoom * factor, 0.004, 4);
    left = gx - x / zoom;
    top = gy - y / zoom;
    moved = true;
    redraw();
  }

  function redraw() {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      draw();
    });
  }

  function draw() {
    const ratio = devicePixelRatio || 1,
      w = canvas.clientWidth,
      h = canvas.clientHeight,
      style = getComputedStyle(root),
      pins = new Set(look.pins),
      g = context;
    /** @param {string} name */
    const colour = (name) => style.getPropertyValue(name);
    /** @param {number} x */
    const X = (x) => (x - left) * zoom;
    /** @param {number} y */
    const Y = (y) => (y - top) * zoom;
    canvas.width = w * ratio;
    canvas.height = h * ratio;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const crosses of [false, true]) {
      g.beginPath();
      g.strokeStyle = colour(crosses ? "--cross" : "--edge");
      g.lineWidth = (crosses ? 2 : 1.2) * within(zoom, 0.5, 1);
      drawing.edges.forEach(([a, b], i) => {
        if ((look.device[a] !== look.device[b]) !== crosses) return;
        g.moveTo(X(drawing.x[a]), Y(drawing.y[a]));
        for (const [x, y] of drawing.bends[i] ?? []) g.lineTo(X(x), Y(y));
        g.lineTo(X(drawing.x[b]), Y(drawing.y[b]));
      });
      g.stroke();
    }
    g.textAlign = "center";
    g.textBaseline = "middle";
    const width = Math.max(W * zoom, 2),
      height = Math.max(H * zoom, 2);
    drawing.x.forEach((gx, i) => {
      const x = X(gx),
        y = Y(drawing.y[i]);
      if (x < -width || x > w + width || y < -height || y > h + height) return;
      const device = look.devices[look.device[i]];
      g.beginPath();
      g.roundRect(x - width / 2, y - height / 2, width, height, 5 * zoom);
      g.fillStyle = device.fill;
      g.fill();
      if (pins.has(i) || i === chosen) {
        g.setLineDash(i === chosen ? [5, 3] : []);
        g.lineWidth = Math.max(3 * zoom, 1.2);
        g.strokeStyle = colour("--ink");
        g.stroke();
        g.setLineDash([]);
      }
      if (zoom < READABLE) return;
      g.fillStyle = device.ink;
      label(g, drawing.type[i], `600 ${12 * zoom}px system-ui, sans-serif`, x, y - 7 * zoom);
      label(g, device.name, `${11 * zoom}px system-ui, sans-serif`, x, y + 8 * zoom);
    });
    if (drag && !drag.pans && drag.far) {
      g.strokeStyle = colour("--accent");
      g.lineWidth = 1.5;
      g.setLineDash([4, 3]);
      g.strokeRect(drag.x, drag.y, drag.toX - drag.x, drag.toY - drag.y);
      g.setLineDash([]);
    }
  }

  /** @param {CanvasRenderingContext2D} g @param {string} text @param {string} font @param {number} x @param {number} y */
  function label(g, text, font, x, y) {
    g.font = font;
    const room = (W - 12) * zoom;
    let shown = text.slice(0, 40);
    while (shown.length > 1 && g.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`;
    g.fillText(shown, x, y);
  }

  /** Says what an op is, beside a place of the canvas. @param {number} i @param {number} x @param {number} y */
  function explain(i, x, y) {
    tip.hidden = i < 0;
    if (i < 0) return;
    const pinned = look.pins.includes(i) ? ", pinned" : "";
    tip.replaceChildren(
      element("b", drawing.type[i]),
      element("div", drawing.name[i], "soft"),
      element("div", `on ${look.devices[look.device[i]].name}, subgraph ${look.part[i]}${pinned}`),
      element("div", look.reasons[look.reason[i]], "soft"),
    );
    tip.style.left = `${within(x + 14, 4, Math.max(frame.clientWidth - tip.offsetWidth - 4, 4))}px`;
    tip.style.top = `${y + 16 + tip.offsetHeight < frame.clientHeight ? y + 16 : Math.max(y - 10 - tip.offsetHeight, 4)}px`;
  }

  /* ---- pointer and keys ---- */
  canvas.onpointerdown = (e) => {
    if (e.button > 1) return;
    e.preventDefault();
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(e.pointerId);
    chosen = -1;
    const { offsetX: x, offsetY: y } = e;
    drag = { x, y, left, top, pans: brush === MOVE || e.button === 1, far: false, toX: x, toY: y };
  };
  canvas.onpointermove = (e) => {
    const { offsetX: x, offsetY: y } = e;
    aimed ||= Boolean(e.movementX || e.movementY);
    if (!drag) return explain(touched(x, y, x, y).pop() ?? -1, x, y);
    drag.far ||= Math.hypot(x - drag.x, y - drag.y) > 4;
    if (!drag.far) return;
    tip.hidden = true;
    [drag.toX, drag.toY] = [x, y];
    if (drag.pans) {
      left = drag.left - (x - drag.x) / zoom;
      top = drag.top - (y - drag.y) / zoom;
      moved = true;
    }
    redraw();
  };
  canvas.onpointerup = () => {
    const ended = drag;
    drag = null;
    redraw();
    if (!ended || ended.pans) return;
    const { x, y, toX, toY } = ended;
    paint(ended.far ? touched(x, y, toX, toY) : touched(x, y, x, y).slice(-1));
  };
  canvas.onpointercancel = () => {
    drag = null;
    redraw();
  };
  canvas.onpointerleave = () => {
    aimed = false;
    tip.hidden = true;
  };
  canvas.onblur = () => {
    chosen = -1;
    tip.hidden = true;
    redraw();
  };
  /** The wheel scrolls the notebook until the pointer moves here. @param {WheelEvent} e */
  function wheel(e) {
    if (!aimed && !e.ctrlKey) return;
    e.preventDefault();
    tip.hidden = true;
    zoomAt(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0015)), e.offsetX, e.offsetY);
  }
  canvas.addEventListener("wheel", wheel, { passive: false });

  /** @param {number} i */
  function choose(i) {
    if (!drawing.x.length) return;
    chosen = within(i, 0, drawing.x.length - 1);
    const w = canvas.clientWidth,
      h = canvas.clientHeight,
      x = (drawing.x[chosen] - left) * zoom,
      y = (drawing.y[chosen] - top) * zoom;
    if (x < 0 || x > w || y < 0 || y > h) {
      left = drawing.x[chosen] - w / 2 / zoom;
      top = drawing.y[chosen] - h / 2 / zoom;
      moved = true;
    }
    explain(chosen, (drawing.x[chosen] - left) * zoom, (drawing.y[chosen] - top) * zoom);
    redraw();
  }

  /** @type {Record<string, () => void>} */
  const keys = {
    ArrowRight: () => choose(chosen + 1),
    ArrowDown: () => choose(chosen + 1),
    ArrowLeft: () => choose(chosen - 1),
    ArrowUp: () => choose(chosen - 1),
    " ": () => paint(chosen < 0 ? [] : [chosen]),
    "+": () => zoomAt(1.3, canvas.clientWidth / 2, canvas.clientHeight / 2),
    "-": () => zoomAt(1 / 1.3, canvas.clientWidth / 2, canvas.clientHeight / 2),
    v: () => take(MOVE),
    u: () => take(UNPIN),
    f: fit,
    Escape: () => take(MOVE),
  };
  /* Keys of the notebook, such as A for a new cell, must not act while a key of the widget is meant. */
  root.onkeydown = (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || (e.key === " " && e.target !== canvas)) return;
    const number = Number(e.key),
      act = number >= 1 && number <= look.devices.length ? () => take(number - 1) : keys[e.key];
    if (!act) return;
    e.preventDefault();
    e.stopPropagation();
    act();
  };

  /* ---- what changes ---- */
  function recolour() {
    look = model.get("_look");
    tip.hidden = true;
    canvas.setAttribute("aria-label", `Graph of ${look.title}: arrow keys choose an op, Space applies the brush`);
    showTools();
    showStatus();
    redraw();
  }
  function another() {
    drawing = model.get("_drawing");
    chosen = -1;
    fit();
  }
  function answered() {
    waiting = Math.max(waiting - 1, 0);
    showStatus();
  }
  const media = matchMedia("(prefers-color-scheme: dark)");
  function scheme() {
    const light = document.body.dataset.jpThemeLight; // JupyterLab's theme, which need not be that of the system
    root.classList.toggle("dark", light ? light === "false" : media.matches);
    redraw();
  }
  const theme = new MutationObserver(scheme),
    size = new ResizeObserver(() => (moved ? redraw() : fit()));

  tools.setAttribute("role", "toolbar");
  tools.setAttribute("aria-label", "Brush");
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  status.setAttribute("role", "status");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  frame.append(canvas, tip);
  status.append(figures, refused);
  root.append(tools, frame, status);
  el.append(root);
  model.on("change:_drawing", another);
  model.on("change:_look", recolour);
  model.on("change:_answered", answered);
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  media.addEventListener("change", scheme);
  size.observe(canvas);
  recolour();
  scheme();
  return () => {
    model.off("change:_drawing", another);
    model.off("change:_look", recolour);
    model.off("change:_answered", answered);
    media.removeEventListener("change", scheme);
    theme.disconnect();
    size.disconnect();
    cancelAnimationFrame(asked);
  };
}

export default { render };
