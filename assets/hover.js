/* A tooltip over ops, blocks and edges; the server knows what they cost. */
((editor) => {
  "use strict";

  const page = editor.page;
  let timer = 0,
    wanted = 0;

  /** @type {Hetero["hoverOver"]} */
  function hoverOver(target) {
    clearTimeout(timer);
    page.hoverPlace = place();
    const isEdge = target.isEdge(),
      id = (/** @type {CyNode} */ node) => editor.opId(node.id());
    const ops = isEdge ? [] : editor.opsOf(target).slice(0, 4000);
    const pairs = isEdge ? target.data("pairs") || [[id(target.source()), id(target.target())]] : [];
    if (isEdge && pairs.some((/** @type {number[]} */ p) => p[0] < 0 || p[1] < 0)) return;
    timer = setTimeout(() => {
      wanted += 1;
      page.hovered = { number: wanted, target: target };
      editor.set("hover-request", { data: { ops: ops, pairs: pairs, number: wanted } });
    }, 320);
  }

  const place = () => `${page.cy.zoom()} ${page.cy.pan().x} ${page.cy.pan().y}`;

  /* Cytoscape also tells of viewports that did not change. */
  function hoverMoved() {
    if (place() !== page.hoverPlace) hoverOut();
  }

  /** @type {Hetero["hoverOut"]} */
  function hoverOut() {
    clearTimeout(timer);
    page.hovered = null;
    const box = editor.byId("hover");
    if (box) box.hidden = true;
  }

  /* The answer came: beside what it is about, within the canvas. */
  /** @param {unknown[] | null} children */
  function hoverShow(children) {
    const box = editor.byId("hover"),
      hovered = page.hovered;
    if (!box || !hovered || !children?.length) {
      if (box) box.hidden = true;
      return window.dash_clientside.no_update;
    }
    box.hidden = false;
    const at = hovered.target.isEdge() ? hovered.target.renderedMidpoint() : hovered.target.renderedPosition();
    const wide = hovered.target.isEdge() ? 10 : hovered.target.renderedWidth() / 2 + 10;
    setTimeout(() => {
      const left = at.x + wide + box.offsetWidth < page.cy.width() ? at.x + wide : at.x - wide - box.offsetWidth;
      box.style.left = `${Math.max(8, left)}px`;
      box.style.top = `${Math.min(Math.max(8, at.y - 20), Math.max(8, page.cy.height() - box.offsetHeight - 8))}px`;
    }, 0);
    return window.dash_clientside.no_update;
  }

  document.addEventListener("pointerout", (event) => {
    if (page.hovered && !(/** @type {HTMLElement | null} */ (event.relatedTarget)?.closest("#graph"))) hoverOut();
  });

  editor.provide({ hoverOver, hoverMoved, hoverOut });
  editor.callbacks({ hoverShow });
})(window.hetero);
