/* The bodies of If, Loop and Scan: a dialog that shows one, and opens those inside it. */

/** @type {Hetero["openBody"]} */
async function openBody(number) {
  try {
    const answer = await editor.ask(`body?number=${number}`);
    const dialog = /** @type {HTMLDialogElement} */ (editor.one("#body-view"));
    editor.set("body-content", { children: answer.content });
    if (!dialog.open) dialog.showModal();
    editor.hoverOut();
  } catch (error) {
    editor.complain(error);
  }
}

editor.on("click", "#body-view", (/** @type {HTMLDialogElement} */ dialog, event) => {
  if (event.target === dialog || editor.around(event, "[data-close]")) dialog.close(); // beside the picture, or its button
});
editor.on("click", "[data-body]", (holder, event) => {
  event.preventDefault(); // a button in a summary must not fold it
  openBody(Number(holder.dataset.body));
});
editor.on("keydown", "g[data-body]", (holder, event) => {
  if (event.key === "Enter") openBody(Number(holder.dataset.body));
});

editor.provide({ openBody });
