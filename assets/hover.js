/* A tooltip over ops, blocks and edges; the server knows what they cost. */
((editor) => {
  "use strict";

  const page = editor.page,
    STATES = 4; // that a tooltip names
  let timer = 0;

  /** @type {Hetero["hoverOver"]} */
  function hoverOver(target) {
    clearTimeout(timer);
    page.hoverPlace = place();
    const isEdge = target.isEdge(),
      id = (/** @type {CyNode} */ node) => editor.opId(node.id());
    const ops = isEdge ? [] : editor.opsOf(target).slice(0, 4000);
    const states = isEdge && target.data("states"),
      pairs = isEdge && !states ? target.data("pairs") || [[id(target.source()), id(target.target())]] : [];
    if (isEdge && pairs.some((/** @type {number[]} */ p) => p[0] < 0 || p[1] < 0)) return;
    timer = window.setTimeout(async () => {
      const asked = isEdge ? `pairs=${pairs.map((/** @type {number[]} */ p) => p.join("-"))}` : `ops=${editor.rangesOf(ops)}`;
      page.hovered = target;
      const content = states
        ? statesInWords(states)
        : await editor.ask(`hover?${asked}`).then(
            (answer) => answer.content,
            () => null, // a tooltip less is no fault
          );
      if (page.hovered === target) show(content);
    }, 320);
  }

  /** @param {string} type @param {unknown} children */
  const element = (type, children) => ({ namespace: "dash_html_components", type, props: { children } });

  /** @param {string[][]} states */
  const statesInWords = (states) => [
    ...states
      .slice(0, STATES)
      .map(([output, input]) => element("Div", [element("B", output), element("Div", `The next step reads it as ${input}`)])),
    ...(states.length > STATES ? [element("Div", `and ${states.length - STATES} more`)] : []),
  ];

  const place = () => `${page.cy.zoom()} ${page.cy.pan().x} ${page.cy.pan().y}`;

  /* Cytoscape also tells of viewports that did not change. */
  function hoverMoved() {
    if (place() !== page.hoverPlace) hoverOut();
  }

  function hoverOut() {
    clearTimeout(timer);
    page.hovered = null;
    const box = editor.byId("hover");
    if (box) box.hidden = true;
  }

  /* The width of the canvas that no card covers on the right. */
  function room() {
    const canvas = editor.one("#graph").getBoundingClientRect(),
      card = editor.byId("inspector")?.getBoundingClientRect();
    return card?.width && card.left > canvas.left ? Math.min(canvas.width, card.left - canvas.left) : canvas.width;
  }

  /** The answer came: beside what it is about, within the canvas. @param {unknown} content */
  function show(content) {
    const box = editor.byId("hover"),
      target = page.hovered;
    if (!box || !target || !content) return;
    editor.set("hover", { children: content });
    box.hidden = false;
    setTimeout(() => editor.placeBeside(box, target, [0, 0], room(), page.cy.height()), 0);
  }

  document.addEventListener("pointerout", (event) => {
    if (page.hovered && !(/** @type {Element | null} */ (event.relatedTarget)?.closest("#graph"))) hoverOut();
  });

  editor.provide({ hoverOver, hoverMoved, hoverOut });
})(window.hetero);
