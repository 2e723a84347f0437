/* The page of a set: its export as a file, and the key that undoes its placement. */

editor.on("click", "[data-set-export]", (/** @type {HTMLButtonElement} */ button) => {
  const form = /** @type {HTMLSelectElement} */ (editor.one("#set-form")).value;
  button.disabled = true;
  editor
    .download(`/set/${button.dataset.setExport}/export?form=${encodeURIComponent(form)}`)
    .catch(editor.complain)
    .finally(() => {
      button.disabled = false;
    });
});

document.addEventListener("keydown", (event) => {
  const undo = document.querySelector("[data-set-undo]");
  if (!undo || event.key.toLowerCase() !== "z" || event.shiftKey || !(event.ctrlKey || event.metaKey)) return;
  if (editor.targetOf(event).matches?.("input, textarea")) return;
  event.preventDefault();
  undo.click();
});
