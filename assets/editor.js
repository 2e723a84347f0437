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
    const renderer = cy.renderer();
    if (cy.elements().length > 700) {       // draw less while the view moves
      renderer.hideEdgesOnViewport = true;
      renderer.textureOnViewport = true;
    }
    cy.on("tap", "node.op", (event) => tapOp(event.target));
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
      view.ops.forEach((op, i) => {
        const node = cy.getElementById("op" + op);
        if (node.empty()) return;
        const [look, word] = lookOf(view, i);
        if (node.data("fill") !== look.fill) node.data({ fill: look.fill, ink: look.ink });
        const label = node.data("name") + "\n" + short(word, 13) + " · s" + view.part[i];
        if (node.data("label") !== label) node.data("label", label);
        const pin = view.pin[i];
        if (node.hasClass("pinned") !== (pin === 1)) node.toggleClass("pinned", pin === 1);
        if (node.hasClass("forced") !== (pin === 2)) node.toggleClass("forced", pin === 2);
      });
      cy.edges().forEach((edge) => {
        const a = place(edge.data("source")), b = place(edge.data("target"));
        const crosses = a !== null && b !== null && a.part !== b.part;
        const moves = crosses && a.device !== b.device;
        if (edge.hasClass("transfer") !== moves) edge.toggleClass("transfer", moves);
        if (edge.hasClass("boundary") !== (crosses && !moves)) edge.toggleClass("boundary", crosses && !moves);
      });
    });
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
    return window.dash_clientside.no_update;
  }

  /* A change of the automatic mode is a stroke; an answer of the server that sets the lists is not. */
  function automatic(policy, grouping, costs) {
    if (!page.view || (policy === page.view.policy && grouping === page.view.grouping && costs === page.view.costs)) return window.dash_clientside.no_update;
    page.sequence += 1;
    return { do: "automatic", policy: policy, grouping: grouping, costs: costs, sequence: page.sequence };
  }

  function place(id) {
    const i = id.startsWith("op") ? page.index.get(Number(id.slice(2))) : undefined;
    return i === undefined ? null : { part: page.view.part[i], device: page.view.device[i] };
  }

  const short = (text, length) => (text.length <= length ? text : text.slice(0, length - 1) + "…");

  function enable(id, on) {
    const button = byId(id);
    if (button) { button.disabled = !on; button.toggleAttribute("data-disabled", !on); }
  }

  /* ---- strokes ------------------------------------------------------------------------------ */

  const painting = () => page.brush !== "select";
  const device = () => (/^\d+$/.test(page.brush) ? Number(page.brush) : null);
  const number = (node) => node.data("op");

  function stroke(what) {
    page.sequence += 1;
    set("stroke", { data: { ...what, sequence: page.sequence } });
  }

  function paint(ops, target, force) {
    if (!ops.length || target === null) return;
    const look = page.view.devices[target];
    if (page.cy && look) {
      page.cy.batch(() => ops.forEach((op) => page.cy.getElementById("op" + op).data({ fill: look.fill, ink: look.ink })));
    }
    stroke({ do: "paint", ops: ops, device: target, force: Boolean(force) });
  }

  function paintOrUnpin(ops) {
    if (page.brush === "unpin") stroke({ do: "unpin", ops: ops });
    else paint(ops, device());
  }

  function tapOp(node) {
    const op = number(node);
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
      paintOrUnpin([op]);
    }
  }

  function endBox() {
    page.boxing = false;
    const ops = page.cy.nodes("node.op:selected").map(number);
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
      const ops = nodes.filter(".op").map(number);
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
        ops.forEach((op) => page.cy.getElementById("op" + op).select());
      });
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
    const nodes = page.cy.nodes(".op").filter((n) => page.view.part[page.index.get(number(n))] === part);
    highlight(nodes.union(nodes.edgesWith(nodes)));
    return row.id;
  }

  function transfersRow(cell) {
    const row = clicked("transfers", cell);
    if (!row) return window.dash_clientside.no_update;
    const source = page.cy.getElementById("op" + row.source_op);
    let targets = page.cy.collection();
    row.target_ops.forEach((op) => { targets = targets.union(page.cy.getElementById("op" + op)); });
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

  function goTo(id) {
    const node = page.cy && page.cy.getElementById(id);
    if (!node || node.empty()) return;
    unmark();
    page.cy.elements(":selected").unselect();
    node.select();
    page.cy.animate({ center: { eles: node }, zoom: Math.max(page.cy.zoom(), 0.6), duration: 160 });
  }

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
    const typing = event.target.closest && event.target.closest("input, textarea, select, [contenteditable=true]");
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
    else if (key === "escape") { page.region = null; setBrush("select"); unmark(); if (page.cy) page.cy.elements(":selected").unselect(); }
    else if (key === "f") fit();
    else if (key === "+" || key === "=") zoom(1.3);
    else if (key === "-") zoom(1 / 1.3);
    else if (key === "/") { byId("find").focus(); event.preventDefault(); }
    else if (key === "delete") { const ops = selectedOps(); if (ops.length) stroke({ do: "unpin", ops: ops }); }
  });

  const selectedOps = () => (page.cy ? page.cy.nodes("node.op:selected").map(number) : []);
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
    else if (data.adopt !== undefined) stroke({ do: "adopt", name: data.adopt });
    else if (data.do === "unpin") stroke({ do: "unpin", ops: selectedOps() });
    else if (data.do === "reset") stroke({ do: "reset" });
    else if (data.do === "close") closeNotice();
    else if (button.id === "undo" || button.id === "redo") stroke({ do: button.id });
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
    hetero: { apply, automatic, colourBy, go, select, subgraphsRow, transfersRow, openBenchmark: () => "benchmark" },
  });
})();
