/* With the pointer or the focus on a device or on an entry of the legend, its ops stand out: in graph, ribbon and map. */
((editor) => {
  "use strict";

  const page = editor.page;

  /** @type {Hetero["emphasise"]} */
  function emphasise(ops) {
    if (!page.cy || !page.view || (!ops && !page.emphasis)) return;
    const shown = ops ? new Set(ops) : null;
    page.emphasis = shown;
    page.cy.batch(() => {
      page.cy.nodes(".op").forEach((node) => {
        const away = shown !== null && !editor.opsOf(node).some((op) => shown.has(op));
        if (node.hasClass("faded") !== away) node.toggleClass("faded", away);
      });
    });
    editor.drawRibbon();
    window.heteroMap.draw();
  }

  let of = "";

  /** @param {Event} event */
  function follow(event) {
    const entry = editor.around(event, "[data-row-device], [data-legend-ops]"),
      device = entry?.dataset.rowDevice,
      now = entry ? `${device ?? entry.dataset.legendOps}` : "";
    if (now === of) return;
    of = now;
    if (!entry) emphasise(null);
    else if (device !== undefined) emphasise(page.view.ops.filter((_op, i) => page.view.device[i] === Number(device)));
    else emphasise(editor.opsIn(entry.dataset.legendOps || ""));
  }

  document.addEventListener("pointerover", follow);
  document.addEventListener("focusin", follow);

  editor.provide({ emphasise });
})(window.hetero);
