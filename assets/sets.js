/* The page of a set: its export as a file. */
((editor) => {
  "use strict";

  document.addEventListener("click", (event) => {
    const button = /** @type {HTMLButtonElement | null} */ (editor.targetOf(event).closest?.("[data-set-export]") ?? null);
    if (!button) return;
    const form = /** @type {HTMLSelectElement} */ (editor.one("#set-form")).value;
    button.disabled = true;
    editor
      .download(`/set/${button.dataset.setExport}/export?form=${encodeURIComponent(form)}`)
      .catch(editor.complain)
      .finally(() => {
        button.disabled = false;
      });
  });
})(window.hetero);
