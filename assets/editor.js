/* The page's own behaviour: painting, selection, keyboard. The server decides what is allowed; the
   browser shows a stroke at once and takes the server's answer when it comes. */
(function () {
  "use strict";

  const page = { cy: null, brush: "select", region: null, first: null, view: null, index: new Map(), quiet: false,
                 sequence: 0, colourMode: "device" };

  const set = (id, props) => window.dash_clientside.set_props(id, props);
  const byId = (id) => document.getElementById(id);

  /* ---- the Cytoscape instance ------------------------------------------------------------- */

  function liveGraph() {
    const element = byId("graph");
    return element && element._cyreg ? element._cyreg.cy : null;
  }

  function attach(cy) {
    page.cy = cy;
    window.heteroCy = cy;
    page.region = page.first = null;
    tune(cy);
    cy.on("tap", "node.op", (event) => tapOp(event.target));
    cy.on("dbltap", "node.group", (event) => open([event.target]));
    cy.on("viewport", () => { if (window.heteroMap) window.heteroMap.draw(); });
    cy.on("tap", (event) => { if (event.target === cy) unmark(); });
    cy.on("boxstart", () => { page.boxing = true; if (painting()) cy.elements(":selected").unselect(); });
    cy.on("boxend", () => setTimeout(endBox, 0));
    cy.on("select unselect", () => { if (!page.boxing) reportSelection(); });
    cy.on("mouseover", "node.op", (event) => { event.target.cy().container().style.cursor = "pointer"; });
    cy.on("mouseout", "node.op", (event) => { event.target.cy().container().style.cursor = ""; });
    let width = cy.width(), height = cy.height();
    cy.on("resize", () => {                  // what was in the middle stays there when a panel grows
      cy.panBy({ x: (cy.width() - width) / 2, y: (cy.height() - height) / 2 });
      width = cy.width(); height = cy.height();
    });
    firstView(cy);
    showMode();
  }

  function firstView(cy) {
    /* A tall graph fitted whole is unreadable: begin at the top, at a readable zoom. */
    cy.fit(undefined, 24);
    if (cy.zoom() > 1.2) { cy.zoom({ level: 1.2, renderedPosition: centre() }); cy.center(); }
    if (cy.zoom() < 0.55) {
      const box = cy.elements().boundingBox();
      const width = Math.min(box.w + 80, Math.max(cy.width() / 0.85, 400));
      const zoom = Math.min(0.75, Math.max(0.55, cy.width() / width));
      const sources = cy.nodes().roots();
      const middle = sources.nonempty() ? sources[0].position("x") : (box.x1 + box.x2) / 2;
      cy.zoom(zoom);
      cy.pan({ x: cy.width() / 2 - middle * zoom, y: 28 - box.y1 * zoom });
    }
  }

  /* ---- the plan's outcome on the graph ----------------------------------------------------- */

  function apply(view) {
    if (!view) return window.dash_clientside.no_update;
    page.view = view;
    page.index = new Map(view.ops.map((op, i) => [op, i]));
    window.heteroColours = Object.fromEntries(view.devices.map((d) => [d.name, d.fill]));
    const cy = liveGraph();
    if (!cy) {
      if (byId("graph")) setTimeout(() => apply(page.view), 30);
    } else {
      if (cy !== page.cy) attach(cy);
      colour(cy, view);
    }
    if (window.heteroMap) window.heteroMap.draw();
    if (page.editor !== byId("editor")) {     // a page was opened: show a benchmark that runs or was run
      page.editor = byId("editor");
      setTimeout(() => set("bench-stream", { data: { opened: Date.now() } }), 0);
    }
    enable("undo", view.undo);
    enable("redo", view.redo);
    showMode();
    return view.version;
  }

  function colour(cy, view) {
    cy.batch(() => {
      page.groupOf = new Map();
      cy.nodes(".op").forEach((node) => {
        if (node.hasClass("group")) { colourGroup(node, view); return; }
        const i = page.index.get(node.data("op"));
        if (i === undefined) return;
        const [look, word] = lookOf(view, i);
        if (node.data("fill") !== look.fill) node.data({ fill: look.fill, ink: look.ink });
        const label = node.data("name") + "\n" + short(word, 13) + " · s" + view.part[i];
        if (node.data("label") !== label) node.data("label", label);
        const pin = view.pin[i];
        if (node.hasClass("pinned") !== (pin === 1)) node.toggleClass("pinned", pin === 1);
        if (node.hasClass("forced") !== (pin === 2)) node.toggleClass("forced", pin === 2);
      });
      cy.edges().forEach((edge) => {
        const pairs = edge.data("pairs") || [[opId(edge.data("source")), opId(edge.data("target"))]];
        let crosses = false, moves = false;
        pairs.forEach(([s, t]) => {
          const a = page.index.get(s), b = page.index.get(t);
          if (a === undefined || b === undefined) return;
          if (view.part[a] !== view.part[b]) crosses = true;
          if (view.device[a] !== view.device[b]) moves = true;
        });
        if (edge.hasClass("transfer") !== moves) edge.toggleClass("transfer", moves);
        if (edge.hasClass("boundary") !== (crosses && !moves)) edge.toggleClass("boundary", crosses && !moves);
      });
    });
  }

  /* A closed block: stripes as wide as the share of each colour, and how many ops each device has. */
  function colourGroup(node, view) {
    const shares = new Map(), devices = new Map();
    let pinned = 0;
    node.data("ops").forEach((op) => {
      const i = page.index.get(op);
      page.groupOf.set(op, node.id());
      const look = lookOf(view, i)[0];
      shares.set(look.fill, { look: look, count: (shares.get(look.fill) || { count: 0 }).count + 1 });
      devices.set(view.device[i], (devices.get(view.device[i]) || 0) + 1);
      if (view.pin[i]) pinned += 1;
    });
    const parts = [...shares.values()].sort((a, b) => b.count - a.count), total = node.data("ops").length;
    const colours = [], stops = [];
    let done = 0;
    parts.forEach((part) => {
      colours.push(part.look.fill, part.look.fill);
      stops.push(100 * done / total + "%", 100 * (done + part.count) / total + "%");
      done += part.count;
    });
    const words = [...devices].sort((a, b) => b[1] - a[1]).map(([d, n]) => short(view.devices[d].name, 8) + " " + n);
    node.data({ fill: parts[0].look.fill, ink: parts[0].look.ink, label: node.data("name") + "\n" + short(words.join(" · "), 22),
                colours: colours.join(" "), stops: stops.join(" ") });
    node.toggleClass("mixed", parts.length > 1);
    node.toggleClass("pinned", pinned > 0);
  }

  /* New elements came from the server: colour them, and keep the place. */
  function redrawn(elements, detail) {
    const before = page.detail;
    page.detail = detail;
    setTimeout(() => {
      const cy = liveGraph();
      if (!cy || !page.view) return;
      if (cy !== page.cy) attach(cy);
      colour(cy, page.view);
      tune(cy);
      if (page.hold) { cy.viewport({ zoom: page.hold.zoom, pan: page.hold.pan }); page.hold = null; }
      if (page.keep) { keepPlace(cy, page.keep); page.keep = null; }
      else if (before && detail && before.mode !== detail.mode) firstView(cy);
      if (page.wanted !== undefined) { const op = page.wanted; page.wanted = undefined; goTo("op" + op); }
    }, 30);
    return window.dash_clientside.no_update;
  }

  /* dash-cytoscape fits the graph whenever elements come and go; people want to stay where they are. */
  function hold() { if (page.cy) page.hold = { zoom: page.cy.zoom(), pan: { ...page.cy.pan() } }; }

  function tune(cy) {
    const many = cy.elements().length > 700, renderer = cy.renderer();      // draw less while the view moves
    renderer.hideEdgesOnViewport = many;
    renderer.textureOnViewport = many;
  }

  /* What was opened or closed stays where it was on the screen. */
  function keepPlace(cy, keep) {
    const nodes = cy.nodes(".op").filter((n) => opsOf(n).some((op) => keep.ops.has(op)));
    if (nodes.empty()) return;
    const box = nodes.boundingBox(), z = cy.zoom();
    cy.pan({ x: keep.at.x - (box.x1 + box.x2) / 2 * z, y: keep.at.y - Math.min(box.y1 + 40, (box.y1 + box.y2) / 2) * z });
    nodes.select();
  }

  function askDetail(what) {
    page.sequence += 1;
    hold();
    set("detail-ask", { data: { ...what, sequence: page.sequence } });
  }

  function detailMode(mode, detail) {
    if (!detail || mode === detail.mode) return window.dash_clientside.no_update;
    page.sequence += 1;
    return { do: "mode", mode: mode, sequence: page.sequence };
  }

  function open(nodes) {
    const units = nodes.map((n) => n.data("unit")).filter((u) => u !== undefined);
    if (!units.length || !page.detail || page.detail.mode !== "blocks") return;
    page.keep = { ops: new Set(nodes.flatMap(opsOf)), at: nodes[0].renderedPosition() };
    askDetail({ do: "open", units: units });
  }

  function close(nodes) {
    if (!nodes.length || !page.detail || page.detail.mode !== "blocks") return;
    page.keep = { ops: new Set(opsOf(nodes[0])), at: nodes[0].renderedPosition() };
    askDetail({ do: "close", ops: nodes.map((n) => opsOf(n)[0]) });
  }

  /* ---- the map ------------------------------------------------------------------------------ */

  function toggleMap() {
    const box = byId("map-box");
    if (!box) return;
    box.hidden = !box.hidden;
    if (box.hidden) return;
    const map = window.heteroMap;
    map.look = (i) => lookOf(page.view, i)[0].fill;
    map.onTap = (i) => { const op = page.view.ops[i]; if (painting()) paintOrUnpin([op]); else bringOp(op); };
    map.onBox = (found) => {
      const ops = found.map((i) => page.view.ops[i]);
      if (painting()) { if (ops.length) paintOrUnpin(ops); } else set("selection", { data: { ops: ops, select: true } });
    };
    map.frameOf = frameOnMap;
    if (page.mapOf === page.view.document && map.ready) map.fit();
    else { byId("map-note").textContent = "Drawing the map …"; page.sequence += 1; set("map-ask", { data: page.sequence }); }
  }

  function mapArrived(data) {
    if (!data) return window.dash_clientside.no_update;
    page.mapOf = page.view.document;
    byId("map-note").textContent = "";
    window.heteroMap.load(data);
    return window.dash_clientside.no_update;
  }

  /* Where the ops that the canvas shows lie on the map. */
  function frameOnMap() {
    const cy = page.cy, map = window.heteroMap;
    if (!cy || !map.ready) return null;
    const view = cy.extent();
    let x1 = Infinity, x2 = -Infinity, y1 = Infinity, y2 = -Infinity;
    cy.nodes(".op").forEach((n) => {
      const p = n.position();
      if (p.x < view.x1 || p.x > view.x2 || p.y < view.y1 || p.y > view.y2) return;
      const ops = opsOf(n), step = Math.max(1, Math.floor(ops.length / 40));
      for (let k = 0; k < ops.length; k += step) {
        const i = page.index.get(ops[k]);
        x1 = Math.min(x1, map.x[i]); x2 = Math.max(x2, map.x[i]); y1 = Math.min(y1, map.y[i]); y2 = Math.max(y2, map.y[i]);
      }
    });
    return x1 > x2 ? null : { x1: x1 - map.width / 2, x2: x2 + map.width / 2, y1: y1 - map.height, y2: y2 + map.height };
  }

  const opId = (id) => (id.startsWith("op") ? Number(id.slice(2)) : -1);

  /* The node that shows an op: its own, or the block that it is in. */
  function nodeOf(op) {
    const own = page.cy.getElementById("op" + op);
    if (own.nonempty() || !page.groupOf) return own;
    return page.cy.getElementById(page.groupOf.get(op) || "");
  }

  function nodesOf(ops) {
    let found = page.cy.collection();
    new Set(ops.map((op) => nodeOf(op).id())).forEach((id) => { if (id) found = found.union(page.cy.getElementById(id)); });
    return found;
  }

  /* Goes to an op; blocks around it are opened. */
  function bringOp(op) {
    const node = page.cy && page.cy.getElementById("op" + op);
    if (node && node.nonempty()) { goTo("op" + op); return; }
    if (page.detail && page.detail.mode === "blocks") { page.wanted = op; askDetail({ do: "reveal", op: op }); }
    else if (page.cy && nodeOf(op).nonempty()) goTo(nodeOf(op).id());
  }

  /* Dark to bright, even steps for every kind of colour vision (after viridis; van der Walt and Smith, 2015). */
  const HEAT = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6dcd59", "#b4de2c", "#fde725"];

  /* Fill and word of an op in the chosen colour mode. */
  function lookOf(view, i) {
    const device = view.devices[view.device[i]];
    if (page.colourMode.startsWith("level-")) {
      const level = page.colourMode.slice(6);
      const kinds = [...new Set(view.devices.map((d) => d.levels[level]))].sort();
      return [view.palette[kinds.indexOf(device.levels[level]) % view.palette.length], level + " " + device.levels[level]];
    }
    if (page.colourMode === "subgraph") return [view.palette[view.partColour[view.part[i]]], device.name];
    if (page.colourMode === "heat" || page.colourMode === "weight") {
      const step = view[page.colourMode][i];
      return [{ fill: HEAT[step], ink: step > 5 ? "#111418" : "#ffffff" }, device.name];
    }
    if (page.colourMode === "pinned") return [view.palette[view.pin[i] ? 1 : 7], device.name];
    return [device, device.name];
  }

  function colourBy(mode) {
    page.colourMode = mode || "device";
    if (page.view && page.cy) colour(page.cy, page.view);
    if (window.heteroMap) window.heteroMap.draw();
    return window.dash_clientside.no_update;
  }

  /* A change of the automatic mode is a stroke; an answer of the server that sets the lists is not. */
  function automatic(policy, grouping, costs, codegen) {
    const view = page.view;
    if (!view || (policy === view.policy && grouping === view.grouping && costs === view.costs && codegen === view.codegen))
      return window.dash_clientside.no_update;
    page.sequence += 1;
    return { do: "automatic", policy: policy, grouping: grouping, costs: costs, codegen: codegen, sequence: page.sequence };
  }

  const short = (text, length) => (text.length <= length ? text : text.slice(0, length - 1) + "…");

  function enable(id, on) {
    const button = byId(id);
    if (button) { button.disabled = !on; button.toggleAttribute("data-disabled", !on); }
  }

  /* ---- strokes ------------------------------------------------------------------------------ */

  const painting = () => page.brush !== "select";
  const device = () => (/^\d+$/.test(page.brush) ? Number(page.brush) : null);
  const opsOf = (node) => node.data("ops") || [node.data("op")];

  function stroke(what) {
    page.sequence += 1;
    hold();
    set("stroke", { data: { ...what, sequence: page.sequence } });
  }

  function paint(ops, target, force) {
    if (!ops.length || target === null) return;
    const look = page.view.devices[target];
    if (page.cy && look) {
      const wanted = new Set(ops);
      page.cy.batch(() => nodesOf(ops).forEach((node) => {
        if (!opsOf(node).every((op) => wanted.has(op))) return;
        node.data({ fill: look.fill, ink: look.ink });
        node.removeClass("mixed");
      }));
    }
    stroke({ do: "paint", ops: ops, device: target, force: Boolean(force) });
  }

  function paintOrUnpin(ops) {
    if (page.brush === "unpin") stroke({ do: "unpin", ops: ops });
    else paint(ops, device());
  }

  function tapOp(node) {
    const ops = opsOf(node), op = ops[0];
    if (page.region === "region") {
      stroke({ do: "region", ops: [op], device: device(), unpin: page.brush === "unpin" });
    } else if (page.region === "between") {
      if (page.first === null) {
        page.first = op;
        page.cy.elements(".mark").removeClass("mark");
        node.addClass("mark");
        showMode();
        return;
      }
      stroke({ do: "between", ops: [page.first, op], device: device(), unpin: page.brush === "unpin" });
      page.cy.elements(".mark").removeClass("mark");
      page.first = null;
      showMode();
    } else if (painting()) {
      paintOrUnpin(ops);
    }
  }

  function endBox() {
    page.boxing = false;
    const ops = selectedOps();
    if (painting() && ops.length) {
      page.cy.elements(":selected").unselect();
      paintOrUnpin(ops);
    } else {
      reportSelection();
    }
  }

  let pending = null;
  function reportSelection() {
    if (page.quiet) return;
    clearTimeout(pending);
    pending = setTimeout(() => {
      const nodes = page.cy.nodes(":selected");
      const ops = nodes.filter(".op").map(opsOf).flat();
      const terminal = nodes.filter(".terminal");
      set("selection", { data: ops.length || terminal.empty() ? { ops: ops } : { ops: [], tensor: terminal[0].data("tensor") } });
    }, 25);
  }

  /* ---- linking graph and tables -------------------------------------------------------------- */

  function select(selection) {
    if (!selection) return window.dash_clientside.no_update;
    const ops = selection.ops || [];
    if (selection.select && page.cy) {
      quietly(() => {
        page.cy.elements(":selected").unselect();
        nodesOf(ops).select();
      });
    }
    if (selection.nothing) flash(byId("find"));
    if (selection.go && ops.length && page.wanted === undefined) {
      page.wanted = ops[0];
      setTimeout(() => { if (page.wanted !== undefined) { const op = page.wanted; page.wanted = undefined; bringIfShown(op); } }, 250);
    }
    const grid = gridApi("subgraphs");
    if (grid && page.view && ops.length) {
      const part = page.view.part[page.index.get(ops[0])];
      const row = grid.getRowNode(String(part));
      if (row && !row.isSelected()) {
        row.setSelected(true, true);
        grid.ensureNodeVisible(row);
      }
    }
    return ops.length;
  }

  function gridApi(id) {
    try { return window.dash_ag_grid.getApi(id); } catch (error) { return null; }
  }

  function quietly(work) {
    page.quiet = true;
    work();
    setTimeout(() => { page.quiet = false; }, 40);
  }

  function unmark() {
    if (!page.cy) return;
    page.cy.batch(() => page.cy.elements(".mark, .dim").removeClass("mark dim"));
  }

  /* Only clicks count: a row may also become selected because the table or the graph changed. */
  function clicked(table, cell) {
    const grid = cell && page.cy ? gridApi(table) : null;
    const row = grid ? grid.getRowNode(cell.rowId) : null;
    return row ? row.data : null;
  }

  function subgraphsRow(cell) {
    const row = clicked("subgraphs", cell);
    if (!row) return window.dash_clientside.no_update;
    const part = Number(row.id);
    const nodes = page.cy.nodes(".op").filter((n) => opsOf(n).some((op) => page.view.part[page.index.get(op)] === part));
    highlight(nodes.union(nodes.edgesWith(nodes)));
    return row.id;
  }

  function transfersRow(cell) {
    const row = clicked("transfers", cell);
    if (!row) return window.dash_clientside.no_update;
    const source = nodeOf(row.source_op), targets = nodesOf(row.target_ops);
    const edges = source.edgesTo(targets);
    edges.addClass("mark");
    highlight(source.union(targets).union(edges), edges);
    return row.tensor;
  }

  function highlight(elements, marked) {
    const cy = page.cy;
    cy.batch(() => {
      cy.elements(".mark, .dim").removeClass("mark dim");
      cy.elements().not(elements).addClass("dim");
      if (marked) marked.addClass("mark");
    });
    bring(elements);
  }

  function bring(elements) {
    const cy = page.cy;
    const box = elements.boundingBox();
    const zoom = Math.min(cy.width() / (box.w + 120), cy.height() / (box.h + 120), 1);
    if (zoom >= 0.35) cy.animate({ fit: { eles: elements, padding: 60 }, duration: 180 },
                                 { complete: () => { if (cy.zoom() > 1) cy.zoom({ level: 1, renderedPosition: centre() }); } });
    else cy.animate({ center: { eles: elements.nodes().first() }, zoom: 0.6, duration: 180 });
  }

  const centre = () => ({ x: page.cy.width() / 2, y: page.cy.height() / 2 });

  function bringIfShown(op) {
    const node = nodeOf(op);
    if (node.nonempty()) goTo(node.id());
  }

  function goTo(id) {
    if (page.cy && page.cy.getElementById(id).empty() && opId(id) >= 0) { bringOp(opId(id)); return; }
    const node = page.cy && page.cy.getElementById(id);
    if (!node || node.empty()) return;
    unmark();
    page.cy.elements(":selected").unselect();
    node.select();
    page.cy.animate({ center: { eles: node }, zoom: Math.max(page.cy.zoom(), 0.6), duration: 160 });
  }

  /* Grows the selection; with a brush in hand, what it grows to is painted. */
  function grow(how) {
    const ops = selectedOps();
    if (!ops.length) {
      set("notice", { children: null });
      const hint = byId("mode-hint");
      hint.textContent = "Select an op first, then choose what to grow it to.";
      hint.classList.add("shown");
      setTimeout(showMode, 2200);
      return;
    }
    stroke({ do: "grow", how: how, ops: ops, device: device(), unpin: page.brush === "unpin" });
  }

  function toggleHelp() { const sheet = byId("help"); if (sheet) sheet.hidden = !sheet.hidden; }

  /* ---- brush, region tool, keyboard ------------------------------------------------------------ */

  function setBrush(name) {
    page.brush = name;
    page.first = null;
    showMode();
  }

  function setRegion(name) {
    page.region = page.region === name ? null : name;
    page.first = null;
    if (page.cy) page.cy.elements(".mark").removeClass("mark");
    showMode();
  }

  function showMode() {
    document.body.dataset.brush = page.brush;
    document.body.dataset.region = page.region || "";
    document.querySelectorAll("[data-brush]").forEach((b) => {
      if (b !== document.body) b.setAttribute("aria-pressed", String(b.dataset.brush === page.brush));
    });
    document.querySelectorAll("[data-region]").forEach((b) => {
      if (b !== document.body) b.setAttribute("aria-pressed", String(b.dataset.region === page.region));
    });
    const hint = byId("mode-hint");
    if (!hint) return;
    const look = page.view && device() !== null ? page.view.devices[device()] : null;
    const act = page.brush === "unpin" ? "unpin" : look ? "paint with " + look.name : "select";
    let text = "";
    if (page.region === "region") text = "Click an op to " + act + " all connected ops of its colour.";
    else if (page.region === "between" && page.first === null) text = "Click the first op of the region.";
    else if (page.region === "between") text = "Click the last op to " + act + " everything between.";
    else if (page.brush === "unpin") text = "Click ops, or shift-drag a box, to unpin.";
    else if (look) text = "Painting with " + look.name + ": click ops, or shift-drag a box.";
    hint.textContent = text && text + "  Esc ends.";
    hint.style.setProperty("--fill", look ? look.fill : "transparent");
    hint.classList.toggle("shown", Boolean(text));
  }

  function find(text, next) {
    if (!page.cy || !text.trim()) return;
    if (/[<>]|==|!=/.test(text)) { stroke({ do: "filter", text: text }); return; }
    if (page.detail && page.detail.mode !== "ops") {
      page.found = next ? (page.found || 0) + 1 : 0;
      askDetail({ do: "find", text: text, skip: page.found });
      return;
    }
    const wanted = text.trim().toLowerCase();
    const hits = page.cy.nodes().filter((n) => n.data("find").includes(wanted));
    if (hits.empty()) { flash(byId("find")); return; }
    page.found = next ? ((page.found || 0) + 1) % hits.length : 0;
    goTo(hits[page.found % hits.length].id());
  }

  function flash(element) {
    element.classList.add("nothing");
    setTimeout(() => element.classList.remove("nothing"), 400);
  }

  document.addEventListener("keydown", (event) => {
    if (event.target.id === "find" && event.key === "Enter") {
      find(event.target.value, page.lastFind === event.target.value);
      page.lastFind = event.target.value;
      return;
    }
    const field = event.target.closest && event.target.closest("input, textarea, select, [contenteditable=true]");
    const typing = field && !(field.readOnly && field.getAttribute("aria-expanded") !== "true") ? field : null;
    if (!byId("editor") || typing) { if (event.key === "Escape" && typing) event.target.blur(); return; }
    const key = event.key.toLowerCase();
    if (event.ctrlKey || event.metaKey) {
      if (key === "z") { stroke({ do: event.shiftKey ? "redo" : "undo" }); event.preventDefault(); }
      else if (key === "y") { stroke({ do: "redo" }); event.preventDefault(); }
      return;
    }
    if (event.altKey) return;
    if (/^[1-9]$/.test(key)) { if (page.view && Number(key) <= page.view.devices.length) setBrush(String(Number(key) - 1)); }
    else if (key === "v") setBrush("select");
    else if (key === "u") setBrush("unpin");
    else if (key === "r") setRegion("region");
    else if (key === "b") setRegion("between");
    else if (key === "escape") { byId("help").hidden = true; page.region = null; setBrush("select"); unmark(); if (page.cy) page.cy.elements(":selected").unselect(); }
    else if (key === "?" || key === "h") toggleHelp();
    else if (GROW[key]) grow(GROW[key]);
    else if (key === "m") toggleMap();
    else if (key === "e" && event.shiftKey) askDetail({ do: "level", deeper: true });
    else if (key === "c" && event.shiftKey) askDetail({ do: "level", deeper: false });
    else if (key === "e" || key === "enter") open(page.cy ? page.cy.nodes(".group:selected").toArray() : []);
    else if (key === "c") close(page.cy ? page.cy.nodes(".op:selected").toArray() : []);
    else if (key === "f") fit();
    else if (key === "+" || key === "=") zoom(1.3);
    else if (key === "-") zoom(1 / 1.3);
    else if (key === "/") { byId("find").focus(); event.preventDefault(); }
    else if (key === "delete") { const ops = selectedOps(); if (ops.length) stroke({ do: "unpin", ops: ops }); }
  });

  const GROW = { t: "type", l: "twins", s: "subgraph", a: "before", d: "after", n: "near", k: "block" };
  const selectedOps = () => (page.cy ? page.cy.nodes("node.op:selected").map(opsOf).flat() : []);
  const zoom = (factor) => page.cy && page.cy.zoom({ level: page.cy.zoom() * factor, renderedPosition: centre() });
  const fit = () => page.cy && page.cy.animate({ fit: { padding: 24 }, duration: 160 });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const data = button.dataset;
    if (data.brush !== undefined) setBrush(data.brush);
    else if (data.region !== undefined) setRegion(data.region);
    else if (data.raise !== undefined) stroke({ do: "raise", device: Number(data.raise) });
    else if (data.paint !== undefined) paint(selectedOps(), Number(data.paint));
    else if (data.force !== undefined) { paint(data.force.split(",").map(Number), Number(data.device), true); closeNotice(); }
    else if (data.goto !== undefined) goTo(data.goto);
    else if (data.layoutUse !== undefined) stroke({ do: "use-layout", name: data.layoutUse });
    else if (data.layoutShow !== undefined) stroke({ do: "show-layout", name: data.layoutShow });
    else if (data.hint !== undefined) { paint(data.hint.split(",").map(Number), Number(data.device)); button.disabled = true; }
    else if (data.adopt !== undefined) stroke({ do: "adopt", name: data.adopt });
    else if (data.do === "unpin") stroke({ do: "unpin", ops: selectedOps() });
    else if (data.do === "reset") stroke({ do: "reset" });
    else if (data.do === "close") closeNotice();
    else if (button.id === "undo" || button.id === "redo") stroke({ do: button.id });
    else if (data.grow !== undefined) grow(data.grow);
    else if (data.step !== undefined) { stroke({ do: "step", step: Number(data.step) }); }
    else if (button.id === "map-toggle") toggleMap();
    else if (button.id === "help-open" || data.do === "help") toggleHelp();
    else if (button.id === "zoom-in") zoom(1.3);
    else if (button.id === "zoom-out") zoom(1 / 1.3);
    else if (button.id === "zoom-fit") fit();
  });

  const closeNotice = () => set("notice", { children: null });

  /* ---- light and dark ---------------------------------------------------------------------- */

  function tellScheme() {
    const scheme = document.documentElement.getAttribute("data-mantine-color-scheme");
    if (!scheme || scheme === page.scheme || !window.dash_clientside || !window.dash_clientside.set_props || !byId("page")) return;
    page.scheme = scheme;
    document.body.dataset.agThemeMode = scheme;
    if (window.heteroMap) setTimeout(window.heteroMap.draw, 50);       // a canvas does not follow style sheets by itself
    try { set("scheme", { data: scheme }); } catch (error) { page.scheme = null; }
  }
  new MutationObserver(tellScheme).observe(document.documentElement, { attributes: true });
  const waiting = setInterval(() => { tellScheme(); if (page.scheme) clearInterval(waiting); }, 50);

  function go(path) {
    /* Not by a callback's output: Dash would take the way from page to address to page for a circle. */
    if (path) setTimeout(() => set("url", { pathname: path }), 0);
    return window.dash_clientside.no_update;
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    hetero: { apply, automatic, colourBy, detailMode, go, mapArrived, redrawn, select, subgraphsRow, transfersRow, openBenchmark: () => "benchmark" },
  });
})();
