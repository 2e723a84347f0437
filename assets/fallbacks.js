/* Buttons in the table of fallbacks. */
((editor) => {
  "use strict";

  const page = editor.page;

  /** @type {Hetero["fallback"]} */
  function fallback(what, value) {
    if (what === "rule") {
      const [type, device] = value.split("|"),
        rules = page.view ? page.view.rules.rules.map(({ count, ...rule }) => rule) : [];
      editor.edit({ do: "rules", rules: [...rules, { type, to: device }] });
      editor.say(`A rule sends all ${type} to ${device}. It is in the tab Rules.`);
      return;
    }
    const ops = value.split(",").map(Number);
    /** @type {HTMLElement | null} */ (document.activeElement)?.blur(); // the next key is for the ops, not for this button
    if (what === "neighbours") editor.edit({ do: "grow", how: "neighbours", ops, device: null, unpin: false });
    else editor.set("selection", { data: { ops, select: true, count: true, reveal: true } });
  }

  editor.provide({ fallback });
})(window.hetero);
