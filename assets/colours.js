/* The colour of an op in each colour mode. */

/* Dark to bright, even steps for every kind of colour vision (after viridis; van der Walt and Smith, 2015). */
const HEAT = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6dcd59", "#b4de2c", "#fde725"];

/* Named one by one in the legend. */
const MOST_SUBGRAPHS = 12;

/* The colour mode where it is a scale and has figures; those of errors come with a measurement. */
/** @param {Messages.View} view @param {string} [mode] */
function scaledMode(view, mode = page.colourMode) {
  if (mode !== "heat" && mode !== "weight" && mode !== "error") return null;
  return view[mode].length ? mode : null;
}

/** Fill and word of an op in the chosen colour mode. @type {Hetero["lookOf"]} */
function lookOf(view, i, mode = page.colourMode) {
  const device = view.devices[view.device[i]];
  if (mode.startsWith("level-")) {
    const level = mode.slice(6);
    const kinds = [...new Set(view.devices.map((d) => d.levels[level]))].sort();
    return [view.palette[kinds.indexOf(device.levels[level]) % view.palette.length], device.levels[level]];
  }
  if (mode === "subgraph") return [view.palette[view.partColour[view.part[i]]], device.name];
  const scaled = scaledMode(view, mode);
  if (scaled) {
    const step = view[scaled][i];
    return [{ fill: HEAT[step], ink: step > 5 ? "#111418" : "#ffffff" }, device.name];
  }
  if (mode === "pinned") return [view.palette[view.pin[i] ? 1 : 7], device.name];
  return [device, device.name];
}

/** What the colours mean: kinds with their number of ops, or a scale. @param {Messages.View} view @param {string} mode */
function meaning(view, mode) {
  const scaled = scaledMode(view);
  if (mode === "error" && !scaled) return ["Press Accuracy, in the tab Benchmark, to measure the errors of this plan"];
  if (scaled) {
    const scale = view.scales[scaled],
      style = `background: linear-gradient(90deg, ${HEAT.join(", ")})`;
    return [`≤ ${scale.low}`, editor.make("i", { className: "scale", style }), `${scale.high} ${scale.what}`];
  }
  const kinds = new Map();
  view.ops.forEach((op, i) => {
    const [look, word] = lookOf(view, i),
      names = { pinned: view.pin[i] ? "pinned" : "automatic", subgraph: `${word} · s${view.part[i]}:` },
      name = names[/** @type {"pinned" | "subgraph"} */ (mode)] ?? word;
    if (!kinds.has(name)) kinds.set(name, { fill: look.fill, ops: [], part: mode === "subgraph" ? view.part[i] : 0 });
    kinds.get(name).ops.push(op);
  });
  if (mode === "subgraph" && kinds.size > MOST_SUBGRAPHS) return [`${kinds.size} subgraphs; neighbours differ in colour`];
  return [...kinds]
    .sort((a, b) => a[1].part - b[1].part || b[1].ops.length - a[1].ops.length)
    .map(([name, { fill, ops }]) => {
      const how = { title: "Select these ops", data: { legendOps: ops.join(" ") }, onclick: () => editor.selectOps(ops) };
      return editor.make("button", how, editor.swatch(fill), `${name} ${ops.length}`);
    });
}

function legend() {
  const box = editor.byId("legend"),
    { view, colourMode } = page;
  if (!box || !view) return;
  // the list of devices says it already, unless it is hidden
  box.hidden = colourMode === "device" && !editor.byId("editor")?.classList.contains("no-tools");
  box.classList.toggle("one-line", scaledMode(view) !== null);
  box.replaceChildren(...(box.hidden ? [] : meaning(view, colourMode)));
}

/** @param {string} mode */
function colourBy(mode) {
  page.colourMode = mode || "device";
  editor.remember({ colour: page.colourMode });
  legend();
  if (page.view && page.cy) {
    editor.colour(page.cy, page.view);
    editor.settle(page.cy); // the legend takes room
  }
  window.heteroMap.draw();
}

editor.provide({ lookOf, legend });
editor.callbacks({ colourBy });
