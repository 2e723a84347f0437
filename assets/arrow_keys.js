/* From op to op with the arrow keys: along edges up and down, within a row to the left and right. */
((editor) => {
  "use strict";

  const page = editor.page;
  const ROW = 24; // nodes of one row differ less in height

  function nearest(nodes, from) {
    const away = (n) => Math.hypot(n.position("x") - from.x, n.position("y") - from.y);
    return nodes.nonempty() ? nodes.min(away).ele : null;
  }

  const middle = (cy) => {
    const e = cy.extent();
    return { x: (e.x1 + e.x2) / 2, y: (e.y1 + e.y2) / 2 };
  };

  function neighbour(node, key) {
    const at = node.position();
    if (key === "ArrowDown") return nearest(node.outgoers("node"), at);
    if (key === "ArrowUp") return nearest(node.incomers("node"), at);
    const beside = page.cy
      .nodes()
      .not(".frame")
      .filter(
        (n) =>
          Math.abs(n.position("y") - at.y) < ROW && (key === "ArrowLeft" ? n.position("x") < at.x : n.position("x") > at.x),
      );
    return nearest(beside, at);
  }

  function step(key) {
    const cy = page.cy,
      chosen = cy.nodes(":selected");
    const goal = chosen.empty() ? nearest(cy.nodes(".op"), middle(cy)) : neighbour(chosen[chosen.length - 1], key);
    if (!goal) return;
    cy.elements(":selected").unselect();
    goal.select();
    const box = cy.extent(),
      p = goal.position(),
      room = 60;
    if (p.x < box.x1 + room || p.x > box.x2 - room || p.y < box.y1 + room || p.y > box.y2 - room) {
      cy.stop();
      cy.animate({ center: { eles: goal }, duration: 120 });
    }
  }

  document.addEventListener("keydown", (event) => {
    const free = event.target === document.body || event.target.closest?.("#graph");
    if (
      !free ||
      !page.cy ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.shiftKey ||
      editor.byId("panes").hidden === false
    )
      return;
    if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      step(event.key);
    } else if (event.key === " " && editor.painting()) {
      event.preventDefault();
      const ops = editor.selectedOps();
      if (ops.length) editor.paintOrUnpin(ops);
      else editor.say("Select something first.");
    }
  });
})(window.hetero);
