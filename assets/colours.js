/* The colour of an op in each colour mode. */
(function (editor) {
  "use strict";

  const page = editor.page;

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
    if (page.view && page.cy) editor.colour(page.cy, page.view);
    if (window.heteroMap) window.heteroMap.draw();
    return window.dash_clientside.no_update;
  }

  Object.assign(editor, { lookOf });
  editor.callbacks({ colourBy });
})(window.hetero);
