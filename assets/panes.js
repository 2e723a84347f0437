/* Layouts side by side over the graph: two to four panes that move together, or two in one with a swipe or a blink. */
((editor) => {
  "use strict";

  const page = editor.page;
  /** @type {PanesState} */
  const panes = {
    charts: [],
    data: /** @type {PanesState["data"]} */ (/** @type {unknown} */ (null)),
    mode: "side",
    only: false,
    timer: undefined,
    wanted: false,
    at: undefined,
    regions: undefined,
  };

  const box = () => editor.one("#panes");

  /* The layouts whose boxes are ticked in the table of the comparison, as a query; "" where they are not two to four. */
  function tickedNames() {
    const names = editor.all('[data-pane][aria-checked="true"]').map((b) => b.dataset.pane ?? "");
    if (names.length >= 2 && names.length <= 4) return `${new URLSearchParams(names.map((name) => ["name", name]))}`;
    editor.say("Tick two to four layouts in the table first.");
    return "";
  }

  function openPanes() {
    const names = tickedNames();
    if (names) editor.ask(`panes?${names}`).then(panesArrived, editor.complain);
  }

  function downloadComparison() {
    const names = tickedNames();
    if (names) editor.download(`/d/${page.view.document}/comparison?${names}`).catch(editor.complain);
  }

  /** @type {Set<string>} */
  const ticked = new Set();

  /** @param {HTMLElement} button */
  function tickPane(button) {
    const on = button.getAttribute("aria-checked") !== "true",
      name = button.dataset.pane ?? "";
    button.setAttribute("aria-checked", String(on));
    if (on) ticked.add(name);
    else ticked.delete(name);
  }

  /* A table that is made anew has the ticks of the one before. */
  function comparisonArrived() {
    setTimeout(() => {
      editor.all("[data-pane]").forEach((button) => {
        button.setAttribute("aria-checked", String(ticked.has(button.dataset.pane ?? "")));
      });
    }, 0);
  }

  /** @param {Messages.Panes} data */
  function panesArrived(data) {
    panes.data = {
      ...data,
      layouts: data.layouts.map((l) => ({
        ...l,
        device: editor.decode(l.device, Uint8Array),
        part: editor.decode(l.part, Uint32Array),
      })),
    };
    panes.wanted = true;
    box().hidden = false;
    if (page.sceneOf === page.view.document) panesReady();
    else editor.askScene();
  }

  /** @type {Hetero["panesReady"]} */
  function panesReady() {
    if (panes.wanted && panes.data && page.scene) {
      panes.wanted = false;
      setPanesMode(panes.data.layouts.length === 2 ? panes.mode : "side", true);
    }
  }

  /** @param {number} i */
  const differs = (i) => panes.data.layouts.some((l) => l.device[i] !== panes.data.layouts[0].device[i]);

  /**
   * @param {PaneLayout} layout
   * @returns {(op: number) => Look}
   */
  function lookOf(layout) {
    return (i) => {
      const device = panes.data.devices[layout.device[i]];
      return {
        fill: device.fill,
        ink: device.ink,
        word: `${device.short} · s${layout.part[i]}`,
        faint: panes.only && !differs(i),
      };
    };
  }

  /**
   * @param {string} mode
   * @param {boolean} fresh
   */
  function setPanesMode(mode, fresh) {
    const before = panes.charts[0]?.middle(),
      two = panes.data.layouts.length === 2;
    clearInterval(panes.timer);
    panes.mode = mode;
    const grid = editor.one(".panes-grid", box());
    grid.textContent = "";
    const shown = mode === "side" ? panes.data.layouts.map((l) => [l]) : [panes.data.layouts];
    grid.style.gridTemplateColumns = `repeat(${shown.length === 4 ? 2 : shown.length}, minmax(0, 1fr))`;
    panes.charts = shown.map((layouts) => pane(grid, layouts));
    editor.all("[data-panes-mode]", box()).forEach((each) => {
      const b = /** @type {HTMLButtonElement} */ (each);
      b.setAttribute("aria-pressed", String(b.dataset.panesMode === mode));
      b.disabled = b.dataset.panesMode !== "side" && !two;
    });
    const count = [...Array(page.scene.count).keys()].filter(differs).length;
    editor.one(".panes-note", box()).textContent = `${count} of ${page.scene.count} ops differ`;
    setTimeout(() => {
      if (before && !fresh) panes.charts[0].lookAt(before);
      else firstLook();
      if (mode === "swipe") {
        const c = panes.charts[0];
        c.split = c.canvas.clientWidth / 2;
        c.draw();
      }
    }, 0);
    if (mode === "blink") blink();
  }

  /**
   * @param {HTMLElement} grid
   * @param {PaneLayout[]} layouts
   */
  function pane(grid, layouts) {
    const frame = document.createElement("figure"),
      caption = document.createElement("figcaption"),
      canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Model coloured by ${layouts.map((l) => l.name).join(" and ")}`);
    layouts.forEach((l, k) => {
      const line = document.createElement("span"),
        name = document.createElement("b");
      name.textContent = l.name;
      line.append(name, ` ${l.summary}`);
      line.className = `pane-${k}`;
      caption.append(line);
    });
    frame.append(caption, canvas);
    grid.append(frame);
    const chart = new editor.Chart();
    chart.scene = page.scene;
    chart.look = lookOf(layouts[0]);
    chart.fadeEdges = () => panes.only;
    if (layouts[1]) chart.other = lookOf(layouts[1]);
    chart.onView = (c) =>
      panes.charts.forEach((other) => {
        if (other !== c) other.follow(c);
      });
    chart.onTap = (i) => {
      panes.charts.forEach((c) => {
        c.chosen = i;
        c.draw();
      });
      editor.set("selection", { data: { ops: [page.view.ops[i]], select: true } });
    };
    chart.show(canvas);
    return chart;
  }

  function blink() {
    const looks = panes.data.layouts.map(lookOf),
      spans = box().querySelectorAll("figcaption span");
    let turn = 0;
    const step = () => {
      panes.charts[0].look = looks[turn];
      spans.forEach((s, k) => s.classList.toggle("off", k !== turn));
      panes.charts[0].draw();
      turn = 1 - turn;
    };
    step();
    panes.timer = setInterval(step, 900);
  }

  /** @type {Hetero["onlyDifferences"]} */
  function onlyDifferences(button) {
    panes.only = !panes.only;
    button.setAttribute("aria-pressed", String(panes.only));
    panes.charts.forEach((c) => c.draw());
  }

  /* Where the layouts begin to differ; at the beginning where they do not. */
  function firstLook() {
    const chart = panes.charts[0],
      first = [...page.scene.x.keys()].find(differs); // in the order of the model, which wrapped drawings do not go from top to bottom
    chart.fit();
    if (first === undefined) return;
    const zoom = Math.max(chart.zoom, 0.45),
      highest = page.scene.bounds.y0 + (chart.canvas.clientHeight / 2 - 16) / zoom;
    chart.lookAt({ x: page.scene.x[first], y: Math.max(page.scene.y[first], highest), zoom: zoom }); // nothing lies above the model
  }

  /* Ops that differ in the same way and touch each other are one difference. */
  function regions() {
    const s = page.scene,
      near = new Map(),
      kind = (/** @type {number} */ i) => panes.data.layouts.map((l) => l.device[i]).join(),
      found = [],
      seen = new Set();
    for (let e = 0; e < s.source.length; e++) {
      const a = s.source[e],
        b = s.target[e];
      if (!differs(a) || !differs(b) || kind(a) !== kind(b)) continue;
      (near.get(a) || near.set(a, []).get(a)).push(b);
      (near.get(b) || near.set(b, []).get(b)).push(a);
    }
    for (let first = 0; first < s.count; first++) {
      if (seen.has(first) || !differs(first)) continue;
      const region = [first];
      seen.add(first);
      for (let k = 0; k < region.length; k++)
        (near.get(region[k]) || []).forEach((/** @type {number} */ n) => {
          if (!seen.has(n)) {
            seen.add(n);
            region.push(n);
          }
        });
      found.push(region);
    }
    return found;
  }

  /** @type {Hetero["nextDifference"]} */
  function nextDifference(step) {
    panes.regions = panes.regions || regions();
    const all = panes.regions;
    if (!all.length) return;
    panes.at = panes.at === undefined ? (step > 0 ? 0 : all.length - 1) : (panes.at + step + all.length) % all.length;
    const region = all[panes.at],
      first = region[0],
      s = page.scene;
    panes.charts[0].bring(first);
    panes.charts[0].onTap?.(first);
    const where = panes.data.layouts.map((l) => panes.data.devices[l.device[first]].short).join(" → ");
    editor.one(".panes-note", box()).textContent =
      "difference " +
      (panes.at + 1) +
      " of " +
      all.length +
      ": " +
      region.length +
      (region.length === 1 ? " op from " : " ops from ") +
      s.types[s.type[first]] +
      ", " +
      where;
  }

  /** @type {Hetero["closePanes"]} */
  function closePanes() {
    const element = editor.byId("panes");
    if (!element || element.hidden) return false;
    element.hidden = true;
    clearInterval(panes.timer);
    panes.charts = [];
    panes.at = panes.regions = undefined;
    return true;
  }

  /** @type {Hetero["fitPanes"]} */
  const fitPanes = () => panes.charts[0]?.fit(true);

  /** @type {Hetero["panesRedraw"]} */
  const panesRedraw = () => panes.charts.forEach((chart) => chart.draw());

  editor.provide({
    openPanes,
    downloadComparison,
    closePanes,
    tickPane,
    panesReady,
    panesRedraw,
    setPanesMode,
    onlyDifferences,
    nextDifference,
    fitPanes,
  });
  editor.callbacks({ comparisonArrived });
  window.heteroPanes = panes;
})(window.hetero);
