/* Blocks that the scope of a rule may mean: a list below the rule while a person types a part of a path. */

const { make } = editor,
  WAIT = 120;
let timer = 0,
  number = 0,
  chosen = -1;
/** @type {HTMLInputElement | null} The field that the list is of. */
let field = null;
/** @type {HTMLUListElement | null} */
let list = null;

/** @type {Hetero["patternMatches"]} */
const patternMatches = (kind, text) => editor.ask(`pattern?${new URLSearchParams({ kind, text })}`);

function close() {
  clearTimeout(timer);
  number += 1; // what is on its way comes too late
  chosen = -1;
  list?.remove();
  list = null;
  field?.setAttribute("aria-expanded", "false");
  for (const name of ["aria-controls", "aria-activedescendant"]) field?.removeAttribute(name);
  field = null;
}

/** @param {HTMLInputElement} typed */
function ask(typed) {
  close();
  const text = typed.value.trim(),
    asked = number;
  if (!text) return;
  timer = window.setTimeout(async () => {
    const data = await patternMatches("scope", text).catch(editor.complain);
    if (data && asked === number && document.activeElement === typed) show(typed, data.blocks);
  }, WAIT);
}

/** @param {HTMLInputElement} typed @param {Messages.RuleBlock[]} blocks */
function show(typed, blocks) {
  if (blocks.every((block) => block.path === typed.value.trim())) return;
  field = typed;
  list = make("ul", { id: "rule-blocks", role: "listbox", ariaLabel: "Blocks" }, ...blocks.map(item));
  typed.closest(".rule")?.append(list);
  const now = { role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "true" };
  for (const [name, value] of Object.entries(now)) typed.setAttribute(name, value);
  list.scrollIntoView({ block: "nearest" });
}

/** @param {Messages.RuleBlock} block @param {number} k */
function item(block, k) {
  const onpointerdown = (/** @type {Event} */ event) => {
    event.preventDefault(); // the field keeps the focus, and is not finished before the choice is made
    take(block.path);
  };
  return make(
    "li",
    { id: `rule-block-${k}`, role: "option", ariaSelected: "false", onpointerdown },
    make("bdi", {}, block.path),
    make("span", { className: "hint" }, editor.counted(block.ops)),
  );
}

/** @param {string} path */
function take(path) {
  const taken = field;
  close();
  if (!taken) return;
  taken.value = path;
  taken.dispatchEvent(new Event("change", { bubbles: true }));
}

/** @param {number} step */
function move(step) {
  if (!list) return;
  chosen = Math.min(Math.max(chosen + step, -1), list.children.length - 1);
  editor.highlight(list, field, chosen);
}

editor.on("input", ".rule-text", (/** @type {HTMLInputElement} */ typed) => {
  const kind = /** @type {HTMLSelectElement | null} */ (typed.previousElementSibling);
  if (kind?.value === "scope") ask(typed);
});
editor.on("focusout", ".rule-text", close);
editor.onCapture("keydown", ".rule-text", (typed, event) => {
  if (!list?.isConnected || typed !== field) return;
  const path = editor.all("#rule-blocks bdi")[chosen]?.textContent;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") move(event.key === "ArrowDown" ? 1 : -1);
  else if (event.key === "Enter" && path) take(path);
  else if (event.key === "Escape") close();
  else return;
  event.preventDefault();
  event.stopPropagation(); // the rule takes none of these keys for its own
});

editor.provide({ patternMatches });
