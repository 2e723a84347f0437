/* The menu of a right click in the graph: the commands of the table that fit what was clicked. */

const { make } = editor,
  ROOM = 8;

/**
 * Which commands fit: to ops, to closed blocks, or to the ground.
 * @param {CyNode | null} node
 * @returns {(command: Command) => boolean}
 */
function fits(node) {
  const selection = editor.selectedOps().length > 0,
    block = Boolean(node?.hasClass("group")) || Boolean(page.cy?.nodes(".group:selected").nonempty());
  return (command) =>
    Boolean(command.menu && command.run) &&
    (command.when?.() ?? true) &&
    (command.menu === "ground" ? !selection : command.menu === "block" ? block : selection);
}

/** A right click outside the selection selects what it hits, as in file managers. @param {CyNode | null} node */
function selectUnder(node) {
  if (!page.cy || node?.selected()) return;
  page.cy.elements(":selected").unselect();
  if (node?.hasClass("op")) node.select();
  page.chosen = null;
}

/** @type {Hetero["openContextMenu"]} */
function openContextMenu(event) {
  const menu = editor.byId("context-menu"),
    cy = page.cy;
  if (!menu || !cy || !page.view) return;
  const target = event ? event.target : null,
    frame = target && target !== cy && target.hasClass("frame") ? target : null;
  const node = target && target !== cy && target.isNode() && !frame ? target : null;
  if (event) selectUnder(node);
  const commands = editor.commands().filter(fits(node));
  if (frame) commands.unshift({ id: "close-frame", words: "Close this block", run: () => editor.closeFrame(frame) });
  menu.replaceChildren(...commands.map(item));
  menu.hidden = false;
  const at = event ? event.renderedPosition : middle(cy);
  menu.style.left = `${Math.max(ROOM, Math.min(at.x, cy.width() - menu.offsetWidth - ROOM))}px`;
  menu.style.top = `${Math.max(ROOM, Math.min(at.y, cy.height() - menu.offsetHeight - ROOM))}px`;
  editor.hoverOut();
  /** @type {HTMLElement | null} */ (menu.firstElementChild)?.focus();
}

/** Where the first selected node is, else the middle. @param {Cy} cy */
function middle(cy) {
  const chosen = cy.nodes(":selected");
  return chosen.nonempty() ? chosen[0].renderedPosition() : editor.centre();
}

/** @param {Command} command */
function item(command) {
  const onclick = () => {
    closeContextMenu();
    command.run?.();
  };
  return make(
    "button",
    { role: "menuitem", className: "menu-item", onclick },
    command.swatch ? editor.swatch(command.swatch) : "",
    make("span", {}, command.words),
    make("kbd", {}, command.keys?.[0] ?? ""),
  );
}

function closeContextMenu() {
  const menu = editor.byId("context-menu");
  if (!menu || menu.hidden) return false;
  menu.hidden = true;
  return true;
}

document.addEventListener(
  "keydown",
  (event) => {
    const menu = editor.byId("context-menu");
    if (!menu || menu.hidden) return;
    const items = /** @type {HTMLElement[]} */ ([...menu.children]),
      now = items.indexOf(/** @type {HTMLElement} */ (document.activeElement)),
      next = editor.walked(event.key, ["ArrowUp", "ArrowDown"], items, now);
    if (next) next.focus();
    else if (event.key === "Escape" || event.key === "Tab") closeContextMenu();
    else if (event.key === "Enter" || event.key === " ") return; // presses the item
    event.preventDefault();
    event.stopPropagation();
  },
  true,
);
document.addEventListener("pointerdown", (event) => {
  if (!editor.around(event, "#context-menu")) closeContextMenu();
});
editor.on("contextmenu", "#graph, #context-menu", (_element, event) => event.preventDefault());

editor.provide({ openContextMenu, closeContextMenu });
