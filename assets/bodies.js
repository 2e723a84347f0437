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

/** @param {Event} event */
const asked = (event) => {
  const target = /** @type {Element} */ (event.target);
  const dialog = /** @type {HTMLDialogElement | null} */ (target.closest("#body-view"));
  if (target === dialog || target.closest("[data-close]")) dialog?.close(); // beside the picture, or its button
  return target.closest("[data-body]")?.getAttribute("data-body");
};

document.addEventListener("click", (event) => {
  const number = asked(event);
  if (!number) return;
  event.preventDefault(); // a button in a summary must not fold it
  openBody(Number(number));
});
document.addEventListener("keydown", (event) => {
  const target = /** @type {Element} */ (event.target);
  if (event.key !== "Enter" || target.tagName !== "g") return;
  const number = asked(event);
  if (number) openBody(Number(number));
});

editor.provide({ openBody });
