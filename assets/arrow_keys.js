/* From op to op with the arrow keys: along edges up and down, within a row to the left and right. */

const ROW = 24; // nodes of one row differ less in height

/** @param {CyNodes} nodes @param {Point} from */
function nearest(nodes, from) {
  return nodes.empty() ? null : nodes.min((n) => Math.hypot(n.position("x") - from.x, n.position("y") - from.y)).ele;
}

/** @param {CyNode} node @param {string} key */
function neighbour(node, key) {
  const at = node.position();
  if (key === "ArrowDown") return nearest(node.outgoers("edge").not(".state").targets(), at);
  if (key === "ArrowUp") return nearest(node.incomers("edge").not(".state").sources(), at);
  const beside = page.cy
    .nodes()
    .not(".frame")
    .nodes()
    .filter(
      (n) => Math.abs(n.position("y") - at.y) < ROW && (key === "ArrowLeft" ? n.position("x") < at.x : n.position("x") > at.x),
    );
  return nearest(beside, at);
}

/** Where the model begins: what reads its first input. @param {Cy} cy */
const start = (cy) => {
  const readers = cy.nodes(".terminal").outgoers("node.op");
  return (readers.nonempty() ? readers : cy.nodes(".op"))[0] ?? null;
};

/** @type {Hetero["step"]} */
function step(key) {
  const cy = page.cy;
  if (!cy) return;
  const chosen = cy.nodes(":selected");
  const goal = chosen.empty() ? start(cy) : neighbour(chosen[chosen.length - 1], key);
  if (!goal) return;
  cy.elements(":selected").unselect();
  goal.select();
  const { x1, x2, y1, y2 } = goal.boundingBox(),
    room = 60; // what may be next
  editor.bring({ x1: x1 - room, x2: x2 + room, y1: y1 - room, y2: y2 + room });
}

editor.provide({ step });
