/* The map beside the graph: what a click, a box and the frame on it mean. */
(function (editor) {
  "use strict";

  const page = editor.page;

  function toggleMap() {
    const box = editor.byId("map-box");
    if (!box) return;
    box.hidden = !box.hidden;
    if (box.hidden) return;
    const map = window.heteroMap;
    map.look = (i) => editor.lookOf(page.view, i)[0].fill;
    map.onTap = (i) => { const op = page.view.ops[i]; if (editor.painting()) editor.paintOrUnpin([op]); else editor.bringOp(op); };
    map.onBox = (found) => {
      const ops = found.map((i) => page.view.ops[i]);
      if (editor.painting()) { if (ops.length) editor.paintOrUnpin(ops); } else editor.set("selection", { data: { ops: ops, select: true } });
    };
    map.frameOf = frameOnMap;
    if (page.mapOf === page.view.document && map.ready) map.fit();
    else { editor.byId("map-note").textContent = "Drawing the map …"; page.sequence += 1; editor.set("map-ask", { data: page.sequence }); }
  }

  function mapArrived(data) {
    if (!data) return window.dash_clientside.no_update;
    page.mapOf = page.view.document;
    editor.byId("map-note").textContent = "";
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
      const ops = editor.opsOf(n), step = Math.max(1, Math.floor(ops.length / 40));
      for (let k = 0; k < ops.length; k += step) {
        const i = page.index.get(ops[k]);
        x1 = Math.min(x1, map.x[i]); x2 = Math.max(x2, map.x[i]); y1 = Math.min(y1, map.y[i]); y2 = Math.max(y2, map.y[i]);
      }
    });
    return x1 > x2 ? null : { x1: x1 - map.width / 2, x2: x2 + map.width / 2, y1: y1 - map.height, y2: y2 + map.height };
  }

  Object.assign(editor, { toggleMap });
  editor.callbacks({ mapArrived });
})(window.hetero);
