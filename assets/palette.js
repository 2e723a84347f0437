/* The command palette: everything that a button or a key does, found by typing. */
((editor) => {
  "use strict";

  const page = editor.page;
  let chosen = 0,
    shown = [];

  const click = (id) => () => {
    const b = editor.byId(id);
    if (b) b.click();
  };
  const tab = (name) => () => [...document.querySelectorAll("#dock [role=tab]")].find((t) => t.textContent === name).click();

  function commands() {
    const devices = page.view.devices.map((d, i) => [
      `Brush: paint with ${d.name}`,
      String(i + 1),
      () => editor.setBrush(String(i)),
    ]);
    const pin = page.view.devices.map((d, i) => [
      `Pin the selection to ${d.name}`,
      "",
      () => editor.paint(editor.selectedOps(), i),
    ]);
    const grow = {
      type: "all ops of the same type",
      twins: "the same op in every layer",
      block: "the block around",
      subgraph: "its subgraph",
      before: "everything before",
      after: "everything after",
      near: "its neighbours",
    };
    const colours = {
      device: "device",
      "level-device": "device kind",
      "level-unit": "unit",
      "level-codegen": "codegen",
      subgraph: "subgraph",
      heat: "time",
      weight: "memory",
      pinned: "pinned",
    };
    const look = Object.entries(colours).map(([v, words]) => [
      `Colour by ${words}`,
      "",
      () => editor.set("colour-by", { value: v }),
    ]);
    const detail = Object.entries({ ops: "every op", blocks: "blocks", subgraphs: "subgraphs" }).map(([v, words]) => [
      `Draw ${words}`,
      "",
      () => editor.set("detail-mode", { value: v }),
    ]);
    const policy = Object.entries({
      priority: "priority, first device that can",
      "optimal:latency": "optimal, least latency",
      "optimal:throughput": "optimal, throughput",
      memory: "optimal within memory",
      pipeline: "pipeline",
    }).map(([v, words]) => [`Policy: ${words}`, "", () => editor.set("policy", { value: v })]);
    return [
      ...devices,
      ...look,
      ...detail,
      ...policy,
      ["Brush: unpin", "U", () => editor.setBrush("unpin")],
      ["Select and move", "V", () => editor.setBrush("select")],
      ...pin,
      ["Unpin the selection", "Delete", () => editor.stroke({ do: "unpin", ops: editor.selectedOps() })],
      ["Reset to automatic: remove all pins", "", () => editor.stroke({ do: "reset" })],
      ["Undo", "Ctrl+Z", () => editor.stroke({ do: "undo" })],
      ["Redo", "Ctrl+Shift+Z", () => editor.stroke({ do: "redo" })],
      ...Object.entries(grow).map(([how, words]) => [`Grow the selection to ${words}`, "", () => editor.grow(how)]),
      ["Region: connected ops of one colour", "R", () => editor.setRegion("region")],
      ["Region: everything between two ops", "B", () => editor.setRegion("between")],
      ["Fit the graph", "F", editor.fit],
      ["Zoom to the selection", "Z", editor.zoomToSelection],
      ["Map of the whole model", "M", editor.toggleMap],
      ["Open all blocks one level deeper", "Shift+E", () => editor.askDetail({ do: "level", deeper: true })],
      ["Close all blocks", "Shift+C", () => editor.askDetail({ do: "level", deeper: false })],
      ...["Subgraphs", "Transfers", "Benchmark", "Rules", "Compare"].map((name) => [
        `Show ${name.toLowerCase()}`,
        "",
        tab(name),
      ]),
      [
        "Run the benchmark",
        "",
        () => {
          tab("Benchmark")();
          click("bench-start")();
        },
      ],
      [
        "Profile the ops",
        "",
        () => {
          tab("Benchmark")();
          click("bench-profile")();
        },
      ],
      [
        "Tune: try the best plans for real",
        "",
        () => {
          tab("Benchmark")();
          click("bench-tune")();
        },
      ],
      [
        "Compare layouts",
        "",
        () => {
          tab("Compare")();
          click("compare-start")();
        },
      ],
      [
        "Look for hints",
        "",
        () => {
          tab("Compare")();
          click("hints-start")();
        },
      ],
      ["Picture of the view, PNG", "", () => editor.picture("png")],
      ["Picture of the view, SVG", "", () => editor.picture("svg")],
      ["Copy a link to the selection", "", editor.copyLink],
      ["Light or dark", "", click("scheme-toggle")],
      ["Keyboard", "?", editor.toggleHelp],
      ["Export …", "", click("export")],
    ];
  }

  function openPalette() {
    const box = editor.byId("palette");
    if (!box || !page.view) return;
    box.hidden = false;
    const field = box.querySelector(".palette-field");
    field.textContent = "";
    field.focus();
    list("");
  }

  function closePalette() {
    const box = editor.byId("palette");
    if (!box || box.hidden) return false;
    box.hidden = true;
    return true;
  }

  function list(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean),
      found = commands();
    shown = found.filter(([name]) => words.every((w) => name.toLowerCase().includes(w)));
    if (text.trim())
      shown.push([
        `Find “${text.trim()}” in the graph`,
        "/",
        () => {
          editor.find(text, false);
        },
      ]);
    chosen = 0;
    const ul = editor.byId("palette").querySelector("ul");
    ul.textContent = "";
    shown.slice(0, 60).forEach(([name, key], k) => {
      const li = document.createElement("li"),
        span = document.createElement("span"),
        kbd = document.createElement("kbd");
      span.textContent = name;
      kbd.textContent = key;
      li.append(span);
      if (key) li.append(kbd);
      li.setAttribute("role", "option");
      li.id = `palette-${k}`;
      li.addEventListener("click", () => run(k));
      ul.append(li);
    });
    mark();
  }

  function mark() {
    const items = editor.byId("palette").querySelectorAll("li");
    items.forEach((li, k) => li.setAttribute("aria-selected", String(k === chosen)));
    if (items[chosen]) items[chosen].scrollIntoView({ block: "nearest" });
    editor.byId("palette").querySelector(".palette-field").setAttribute("aria-activedescendant", `palette-${chosen}`);
  }

  function run(k) {
    const command = shown[k];
    closePalette();
    if (command) command[2]();
  }

  document.addEventListener("input", (event) => {
    if (event.target.classList.contains("palette-field")) list(event.target.textContent);
  });
  document.addEventListener(
    "keydown",
    (event) => {
      if ((event.ctrlKey || event.metaKey) && ["k", "p"].includes(event.key.toLowerCase()) && editor.byId("editor")) {
        event.preventDefault();
        openPalette();
        return;
      }
      if (!event.target.classList?.contains("palette-field")) return;
      const last = Math.min(shown.length, 60) - 1;
      if (event.key === "ArrowDown") chosen = Math.min(chosen + 1, last);
      else if (event.key === "ArrowUp") chosen = Math.max(chosen - 1, 0);
      else if (event.key === "Enter") {
        event.preventDefault();
        event.stopPropagation();
        run(chosen);
        return;
      } else if (event.key === "Escape") {
        event.stopPropagation();
        closePalette();
        return;
      } else return;
      event.preventDefault();
      mark();
    },
    true,
  );
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest("#palette")) closePalette();
  });

  Object.assign(editor, { openPalette, closePalette });
})(window.hetero);
