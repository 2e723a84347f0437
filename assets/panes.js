/* Layouts side by side over the graph: two to four panes that move together, or two in one with a swipe or a blink. Two versions
   of a model are two panes with a drawing each, where an op keeps its place beside the one that it is in the other. */
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
    anchor: undefined,
    anchorSide: 0,
  };

  /* What an op is in the other model, before its device. */
  const SEEN = 0.2, // colours of ops and their outlines are told apart from here
    STATES = ["", "changed · ", "only here · "];

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

  /** @type {Hetero["openVersions"]} */
  function openVersions(other) {
    editor.ask(`versions?${new URLSearchParams({ other })}`).then(versionsArrived, editor.complain);
  }

  /** @param {Messages.Versions} data */
  function versionsArrived(data) {
    const [here, there] = data.layouts.map((l) => ({
      ...unpacked(l),
      state: editor.decode(l.state, Uint8Array),
      twins: editor.decode(l.twins, Int32Array),
      changes: l.changes,
    }));
    show([here, { ...there, scene: new editor.Scene(data.map) }], data.devices);
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
    show(data.layouts.map(unpacked), data.devices);
  }

  /**
   * @param {Messages.Pane} layout
   * @returns {PaneLayout}
   */
  const unpacked = ({ name, summary, device, part }) => ({
    name,
    summary,
    device: editor.decode(device, Uint8Array),
    part: editor.decode(part, Uint32Array),
  });

  /**
   * @param {PaneLayout[]} layouts
   * @param {Messages.PaneDevice[]} devices
   */
  function show(layouts, devices) {
    panes.data = { layouts, devices };
    panes.at = panes.regions = panes.anchor = undefined;
    panes.wanted = true;
    box().hidden = false;
    if (page.sceneOf === page.view.document) panesReady();
    else editor.askScene();
  }

  /** @type {Hetero["panesReady"]} */
  function panesReady() {
    if (panes.wanted && panes.data && page.scene) {
      panes.wanted = false;
      setPanesMode(panes.data.layouts.length === 2 && !areVersions() ? panes.mode : "side", true);
    }
  }

  const areVersions = () => Boolean(panes.data.layouts[0].twins);

  /** @param {PaneLayout} layout */
  const sceneOf = (layout) => layout.scene ?? page.scene;

  /**
   * @param {number} i
   * @param {PaneLayout} [layout]
   */
  const differs = (i, layout = panes.data.layouts[0]) =>
    layout.state ? layout.state[i] > 0 : panes.data.layouts.some((l) => l.device[i] !== panes.data.layouts[0].device[i]);

  /* What an op of a pane is in another one; -1 where it is not there. */
  /**
   * @param {number} i
   * @param {number} from
   * @param {number} to
   */
  const twinOf = (i, from, to) => (from === to ? i : (panes.data.layouts[from].twins?.[i] ?? i));

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
        word: layout.state ? `${STATES[layout.state[i]]}${device.short}` : `${device.short} · s${layout.part[i]}`,
        faint: panes.only && !differs(i, layout),
        marked: differs(i, layout),
      };
    };
  }

  /**
   * @param {string} mode
   * @param {boolean} fresh
   */
  function setPanesMode(mode, fresh) {
    const before = panes.charts[0]?.middle(),
      two = panes.data.layouts.length === 2 && !areVersions();
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
    editor.one(".panes-note", box()).textContent = counts();
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
    const side = panes.data.layouts.indexOf(layouts[0]);
    chart.scene = sceneOf(layouts[0]);
    chart.look = lookOf(layouts[0]);
    chart.fadeEdges = () => panes.only;
    if (layouts[1]) chart.other = lookOf(layouts[1]);
    chart.onView = (c) =>
      panes.charts.forEach((other) => {
        if (other === c) return;
        if (areVersions()) keepBeside(c, side, other);
        else other.follow(c);
      });
    chart.onTap = (i) => {
      panes.charts.forEach((c, to) => {
        c.chosen = twinOf(i, side, to);
        c.draw();
      });
      if (areVersions()) {
        panes.anchor = i;
        panes.anchorSide = side;
        chart.moved();
        tellVersion(i, side);
      }
      const own = twinOf(i, side, 0);
      if (own >= 0) editor.set("selection", { data: { ops: [page.view.ops[own]], select: true } });
    };
    chart.show(canvas);
    return chart;
  }

  /* The other model at the same zoom, with the op that is in both where it is in this one. */
  /**
   * @param {Chart} chart
   * @param {number} side
   * @param {Chart} other
   */
  function keepBeside(chart, side, other) {
    const own = chart.scene,
      middle = chart.middle(),
      its = panes.data.layouts[side].twins ?? new Int32Array(),
      away = (/** @type {number} */ i) => Math.abs(own.x[i] - middle.x) + Math.abs(own.y[i] - middle.y),
      half = chart.canvas.clientWidth / 2 / chart.zoom;
    // The same op as long as it is seen: another one at each step would make the other model jump.
    if (panes.anchorSide !== side || panes.anchor === undefined || !(its[panes.anchor] >= 0) || away(panes.anchor) > half) {
      let best = -1;
      for (let i = 0; i < its.length; i += 1) if (its[i] >= 0 && (best < 0 || away(i) < away(best))) best = i;
      if (best < 0) return;
      panes.anchor = best;
      panes.anchorSide = side;
    }
    const twin = its[panes.anchor];
    other.zoom = chart.zoom;
    other.left = other.scene.x[twin] - (own.x[panes.anchor] - chart.left);
    other.top = other.scene.y[twin] - (own.y[panes.anchor] - chart.top);
    other.draw();
  }

  /* What a chosen op is in the other model. */
  /**
   * @param {number} i
   * @param {number} side
   */
  function tellVersion(i, side) {
    const layout = panes.data.layouts[side],
      state = layout.state?.[i] ?? 0,
      words = ["the same in both", layout.changes?.[i] || "changed", `only in ${layout.name}`][state],
      scene = sceneOf(layout);
    editor.one(".panes-note", box()).textContent = `${scene.types[scene.type[i]]}: ${words}`;
  }

  /* How many ops differ, in words. */
  function counts() {
    if (!areVersions()) {
      const count = [...page.scene.x.keys()].filter((i) => differs(i)).length;
      const [differ, they] = count === 1 ? ["differs", "it has"] : ["differ", "they have"];
      return `${count} of ${page.scene.count} ops ${differ}${count ? `: ${they} an outline` : ""}`;
    }
    const [here, there] = panes.data.layouts,
      of = (/** @type {PaneLayout} */ layout, /** @type {number} */ state) => layout.state?.filter((s) => s === state).length;
    return `${of(here, 1)} changed, ${of(here, 2)} only on the left, ${of(there, 2)} only on the right`;
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

  /* All of the model; where that would be too small, where the layouts begin to differ, or the beginning where they do not. */
  function firstLook() {
    const chart = panes.charts[0],
      first = [...page.scene.x.keys()].find((i) => differs(i)); // in the order of the model, which wrapped drawings do not go from top to bottom
    chart.fit(true);
    if (chart.zoom >= SEEN) return;
    chart.fit();
    if (first === undefined) return;
    const zoom = Math.max(chart.zoom, 0.45),
      highest = page.scene.bounds.y0 + (chart.canvas.clientHeight / 2 - 16) / zoom;
    chart.lookAt({ x: page.scene.x[first], y: Math.max(page.scene.y[first], highest), zoom: zoom }); // nothing lies above the model
  }

  /* Ops that differ in the same way and touch each other are one difference; of another model those that this one lacks. */
  /**
   * @param {PaneLayout} layout
   * @param {number} side
   */
  function regionsOf(layout, side) {
    const s = sceneOf(layout),
      near = new Map(),
      isOne = (/** @type {number} */ i) => (side ? layout.state?.[i] === 2 : differs(i)),
      kind = (/** @type {number} */ i) => layout.state?.[i] ?? panes.data.layouts.map((l) => l.device[i]).join(),
      found = [],
      seen = new Set();
    for (let e = 0; e < s.source.length; e++) {
      const a = s.source[e],
        b = s.target[e];
      if (!isOne(a) || !isOne(b) || kind(a) !== kind(b)) continue;
      (near.get(a) || near.set(a, []).get(a)).push(b);
      (near.get(b) || near.set(b, []).get(b)).push(a);
    }
    for (let first = 0; first < s.count; first++) {
      if (seen.has(first) || !isOne(first)) continue;
      const region = [first];
      seen.add(first);
      for (let k = 0; k < region.length; k++)
        (near.get(region[k]) || []).forEach((/** @type {number} */ n) => {
          if (!seen.has(n)) {
            seen.add(n);
            region.push(n);
          }
        });
      found.push({ side, ops: region });
    }
    return found;
  }

  const regions = () => (areVersions() ? panes.data.layouts : panes.data.layouts.slice(0, 1)).flatMap(regionsOf);

  /** @type {Hetero["nextDifference"]} */
  function nextDifference(step) {
    panes.regions = panes.regions || regions();
    const all = panes.regions;
    if (!all.length) return;
    panes.at = panes.at === undefined ? (step > 0 ? 0 : all.length - 1) : (panes.at + step + all.length) % all.length;
    const { side, ops: region } = all[panes.at],
      first = region[0],
      s = sceneOf(panes.data.layouts[side]);
    panes.charts[side].bring(first);
    panes.charts[side].onTap?.(first);
    if (areVersions()) {
      const note = editor.one(".panes-note", box());
      note.textContent = `difference ${panes.at + 1} of ${all.length}: ${note.textContent}`;
      return;
    }
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
    panes.at = panes.regions = panes.anchor = undefined;
    return true;
  }

  /** @type {Hetero["fitPanes"]} */
  const fitPanes = () => panes.charts[0]?.fit(true);

  /** @type {Hetero["panesRedraw"]} */
  const panesRedraw = () => panes.charts.forEach((chart) => chart.draw());

  editor.provide({
    openPanes,
    openVersions,
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
