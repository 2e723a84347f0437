/* The slider of the context in the tab Memory: what the split lacks there, and the way to a plan for it; sizes that are refused. */
((editor) => {
  "use strict";

  /** @param {Event} event */
  const boxOf = (event) => /** @type {HTMLElement | null} */ (editor.targetOf(event).closest?.("[data-context]"));

  /**
   * Tokens at which the slider stands, what there is to say of them, and its class.
   * @param {HTMLElement} box
   * @returns {[number, string, string]}
   */
  function chosen(box) {
    const slider = /** @type {HTMLInputElement} */ (editor.one("input", box));
    return JSON.parse(box.dataset.steps ?? "[]")[Number(slider.value)];
  }

  document.addEventListener("input", (event) => {
    const box = boxOf(event);
    if (!box) return;
    const [tokens, said, look] = chosen(box);
    const status = editor.one("[role=status]", box);
    status.textContent = said;
    status.className = look;
    editor.one("input", box).setAttribute("aria-valuetext", said);
    /** @type {HTMLButtonElement} */ (editor.one("button", box)).disabled = String(tokens) === box.dataset.now;
  });

  /* The form of the sizes says what else they are, and is told if they are refused. */
  document.addEventListener("click", (event) => {
    const box = boxOf(event);
    if (!box || !editor.targetOf(event).matches(".tool:not([data-command])")) return;
    editor.set({ type: "size", name: box.dataset.context ?? "" }, { value: chosen(box)[0] });
    setTimeout(() => editor.set("sizes-apply", { n_clicks: Date.now() }), 0);
  });

  /* Before the command of the button places a prompt of that length. */
  document.addEventListener(
    "click",
    (event) => {
      const box = /** @type {HTMLElement | null} */ (document.querySelector("#memory [data-context]"));
      if (box && editor.targetOf(event).matches("#memory [data-command=run-phases-start]"))
        editor.set("phases-prompt-length", { value: chosen(box)[0] });
    },
    true,
  );

  /* Beside their fields, unless these are closed, as after a choice with the slider. */
  /** @param {{ props: Record<string, string> } | null} why */
  function sizesRefused(why) {
    setTimeout(() => {
      if (why && !editor.byId("sizes-refused")?.checkVisibility())
        editor.complain({ status: 400, message: why.props["data-text"] });
    }, 50);
  }

  editor.callbacks({ sizesRefused });
})(window.hetero);
