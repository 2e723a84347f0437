/* The map: every op of the model on a plain canvas, culled to the viewport, edges only where they can be seen. */
(function () {
  "use strict";

  const map = { ready: false, x: null, y: null, source: null, target: null, count: 0, zoom: 1, left: 0, top: 0, box: null,
                bounds: null, frame: 0 };
  window.heteroMap = map;

  const canvas = () => document.getElementById("map");
  const shown = () => { const box = document.getElementById("map-box"); return box && !box.hidden; };

  function decode(text, Type) {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new Type(bytes.buffer);
  }

  map.load = function (data) {
    Object.assign(map, { count: data.count, width: data.width, height: data.height, x: decode(data.x, Float32Array),
                         y: decode(data.y, Float32Array), source: decode(data.source, Uint32Array),
                         target: decode(data.target, Uint32Array), ready: true });
    let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
    for (let i = 0; i < map.count; i++) {
      x0 = Math.min(x0, map.x[i]); x1 = Math.max(x1, map.x[i]); y0 = Math.min(y0, map.y[i]); y1 = Math.max(y1, map.y[i]);
    }
    map.bounds = { x0: x0 - map.width, x1: x1 + map.width, y0: y0 - map.height, y1: y1 + map.height };
    map.rows = rowsOf();
    map.fit();
  };

  /* Ops by height, so that only those in the viewport are looked at. */
  function rowsOf() {
    const order = new Uint32Array(map.count);
    for (let i = 0; i < map.count; i++) order[i] = i;
    order.sort((a, b) => map.y[a] - map.y[b]);
    return order;
  }

  function firstBelow(y) {
    let low = 0, high = map.count;
    while (low < high) { const middle = (low + high) >> 1; if (map.y[map.rows[middle]] < y) low = middle + 1; else high = middle; }
    return low;
  }

  map.fit = function () {
    const c = canvas();
    if (!c || !map.ready) return;
    const w = c.clientWidth, h = c.clientHeight, b = map.bounds;
    map.zoom = Math.min(w / (b.x1 - b.x0), h / (b.y1 - b.y0));
    map.left = (b.x0 + b.x1) / 2 - w / 2 / map.zoom;
    map.top = (b.y0 + b.y1) / 2 - h / 2 / map.zoom;
    map.draw();
  };

  map.draw = function () {
    if (!map.frame) map.frame = requestAnimationFrame(() => { map.frame = 0; paint(); });
  };

  function paint() {
    const c = canvas();
    if (!c || !map.ready || !shown() || !map.look) return;
    const w = c.clientWidth, h = c.clientHeight, scale = window.devicePixelRatio || 1;
    if (c.width !== Math.round(w * scale) || c.height !== Math.round(h * scale)) {
      c.width = Math.round(w * scale); c.height = Math.round(h * scale);
    }
    const g = c.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    const style = getComputedStyle(document.body);
    g.fillStyle = style.getPropertyValue("--raised") || "#f1f3f5";
    g.fillRect(0, 0, w, h);
    const z = map.zoom, bottom = map.top + h / z, right = map.left + w / z;
    const from = firstBelow(map.top - map.height), to = firstBelow(bottom + map.height);
    if (z > 0.05 && (to - from) < 4000) edges(g, bottom, style);
    // Ops of one colour are one path; far out they are at least a pixel and a half high.
    const high = Math.max(map.height * z, 1.5), wide = Math.max(map.width * z, 1.5), paths = new Map();
    const step = Math.max(1, Math.floor((to - from) / 60000));
    for (let k = from; k < to; k += step) {
      const i = map.rows[k];
      if (map.x[i] + map.width < map.left || map.x[i] - map.width > right) continue;
      const fill = map.look(i);
      let path = paths.get(fill);
      if (!path) paths.set(fill, path = new Path2D());
      path.rect((map.x[i] - map.left) * z - wide / 2, (map.y[i] - map.top) * z - high / 2, wide, high);
    }
    paths.forEach((path, fill) => { g.fillStyle = fill; g.fill(path); });
    g.lineWidth = 2;
    g.strokeStyle = style.getPropertyValue("--accent") || "#228be6";
    if (map.frameOf) {
      const f = map.frameOf();
      if (f) g.strokeRect((f.x1 - map.left) * z, (f.y1 - map.top) * z, Math.max((f.x2 - f.x1) * z, 4), Math.max((f.y2 - f.y1) * z, 4));
    }
    if (map.box) g.strokeRect(Math.min(map.box.x0, map.box.x1), Math.min(map.box.y0, map.box.y1),
                              Math.abs(map.box.x1 - map.box.x0), Math.abs(map.box.y1 - map.box.y0));
  }

  function edges(g, bottom, style) {
    const z = map.zoom;
    g.strokeStyle = style.getPropertyValue("--line") || "#ced4da";
    g.lineWidth = 1;
    g.beginPath();
    for (let e = 0; e < map.source.length; e++) {
      const a = map.source[e], b = map.target[e];
      if (map.y[b] < map.top || map.y[a] > bottom) continue;
      g.moveTo((map.x[a] - map.left) * z, (map.y[a] - map.top) * z);
      g.lineTo((map.x[b] - map.left) * z, (map.y[b] - map.top) * z);
    }
    g.stroke();
  }

  function at(event) {
    const rect = canvas().getBoundingClientRect();
    return { px: event.clientX - rect.left, py: event.clientY - rect.top };
  }

  const world = (p) => ({ x: p.px / map.zoom + map.left, y: p.py / map.zoom + map.top });

  map.nearest = function (p) {
    const w = world(p), reach = Math.max(map.height, 12 / map.zoom);
    let best = -1, distance = Infinity;
    for (let k = firstBelow(w.y - reach); k < map.count; k++) {
      const i = map.rows[k];
      if (map.y[i] > w.y + reach) break;
      const dx = Math.max(Math.abs(map.x[i] - w.x) - map.width / 2, 0), dy = map.y[i] - w.y, d = dx * dx + dy * dy;
      if (d < distance && dx < 30 / map.zoom) { distance = d; best = i; }
    }
    return best;
  };

  map.inside = function (box) {
    const a = world({ px: Math.min(box.x0, box.x1), py: Math.min(box.y0, box.y1) });
    const b = world({ px: Math.max(box.x0, box.x1), py: Math.max(box.y0, box.y1) });
    const found = [];
    for (let k = firstBelow(a.y); k < map.count && map.y[map.rows[k]] <= b.y; k++) {
      const i = map.rows[k];
      if (map.x[i] >= a.x && map.x[i] <= b.x) found.push(i);
    }
    return found;
  };

  let drag = null;
  document.addEventListener("pointerdown", (event) => {
    if (event.target !== canvas() || event.button) return;
    const p = at(event);
    drag = { p: p, left: map.left, top: map.top, moved: false, boxing: event.shiftKey };
    event.target.setPointerCapture(event.pointerId);
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag || event.target !== canvas()) return;
    const p = at(event);
    if (Math.abs(p.px - drag.p.px) + Math.abs(p.py - drag.p.py) > 3) drag.moved = true;
    if (drag.boxing) map.box = { x0: drag.p.px, y0: drag.p.py, x1: p.px, y1: p.py };
    else { map.left = drag.left - (p.px - drag.p.px) / map.zoom; map.top = drag.top - (p.py - drag.p.py) / map.zoom; }
    map.draw();
  });
  document.addEventListener("pointerup", (event) => {
    if (!drag || event.target !== canvas()) { drag = null; return; }
    if (drag.boxing && map.box) map.onBox(map.inside(map.box));
    else if (!drag.moved) { const i = map.nearest(drag.p); if (i >= 0) map.onTap(i); }
    drag = map.box = null;
    map.draw();
  });
  document.addEventListener("wheel", (event) => {
    if (event.target !== canvas()) return;
    event.preventDefault();
    const p = at(event), w = world(p);
    map.zoom = Math.min(4, Math.max(map.zoom * Math.exp(-event.deltaY * 0.0015), 0.0005));
    map.left = w.x - p.px / map.zoom;
    map.top = w.y - p.py / map.zoom;
    map.draw();
  }, { passive: false });
  window.addEventListener("resize", () => map.draw());
})();
