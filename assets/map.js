/* The map beside the graph: what a click, a box and the frame on it mean. */

const page = editor.page,
  map = new editor.Chart();
window.heteroMap = map;

function toggleMap() {
  const box = editor.byId("map-box");
  if (!box) return;
  box.hidden = !box.hidden;
  if (box.hidden) return;
  map.show(editor.one("#map"));
  map.look = (i) => ({
    ...editor.lookOf(page.view, i)[0],
    faint: page.emphasis !== null && !page.emphasis.has(page.view.ops[i]),
  });
  map.onTap = (i) => {
    const op = page.view.ops[i];
    if (editor.painting()) editor.paintOrUnpin([op]);
    else editor.bringOp(op);
  };
  map.onBox = (found) => {
    const ops = found.map((i) => page.view.ops[i]);
    if (editor.painting()) {
      if (ops.length) editor.paintOrUnpin(ops);
    } else editor.set("selection", { data: { ops: ops, select: true } });
  };
  map.frameOf = frameOnMap;
  if (page.sceneOf === page.view.document) {
    showScene();
    return;
  }
  editor.one("#map-note").textContent = "Drawing the map …";
  askScene();
}

function showScene() {
  const canvas = editor.one("#map");
  editor.one("#map-box").classList.toggle("wide", page.scene.isWide);
  map.scene = page.scene.stretched(canvas.clientWidth / canvas.clientHeight);
  map.fit();
}

async function askScene() {
  const data = await editor.ask("map").catch(editor.complain);
  if (!data) return;
  page.sceneOf = page.view.document;
  page.scene = new editor.Scene(data);
  editor.one("#map-note").textContent = "";
  if (!editor.one("#map-box").hidden) showScene();
}

/* Where the ops that the canvas shows lie on the map. */
function frameOnMap() {
  const cy = page.cy,
    s = map.scene;
  if (!cy || !s) return null;
  const view = cy.extent();
  let x1 = Infinity,
    x2 = -Infinity,
    y1 = Infinity,
    y2 = -Infinity;
  cy.nodes(".op").forEach((n) => {
    const p = n.position();
    if (p.x < view.x1 || p.x > view.x2 || p.y < view.y1 || p.y > view.y2) return;
    const ops = editor.opsOf(n),
      step = Math.max(1, Math.floor(ops.length / 40));
    for (let k = 0; k < ops.length; k += step) {
      const i = page.index.get(ops[k]);
      x1 = Math.min(x1, s.x[i]);
      x2 = Math.max(x2, s.x[i]);
      y1 = Math.min(y1, s.y[i]);
      y2 = Math.max(y2, s.y[i]);
    }
  });
  return x1 > x2 ? null : { x1: x1 - s.width / 2, x2: x2 + s.width / 2, y1: y1 - s.height, y2: y2 + s.height };
}

editor.provide({ toggleMap });
