/* The command palette: every command of the table, found by typing. */

const { make } = editor,
  MOST_SHOWN = 60;
let chosen = 0;
/** @type {Command[]} */
let shown = [];

const parts = () => {
  const box = editor.byId("palette");
  return {
    box,
    field: /** @type {HTMLElement} */ (box?.querySelector(".palette-field")),
    list: /** @type {HTMLElement} */ (box?.querySelector("ul")),
  };
};

function openPalette() {
  const { box, field } = parts();
  if (!box || !page.view) return;
  box.hidden = false;
  field.textContent = "";
  field.focus();
  search("");
}

function closePalette() {
  const { box } = parts();
  if (box) box.hidden = true;
}

/* What a text finds: the command of exactly these words first, then those that begin with it, then those with its words. */
/** @type {Hetero["commandsFor"]} */
function commandsFor(text) {
  const wanted = text.trim().toLowerCase(),
    parts = wanted.split(/\s+/).filter(Boolean);
  /** @param {Command} command */
  const rank = ({ words }) => {
    const said = words.toLowerCase(),
      whole = said.split(/[\s,:;()]+/);
    if (said === wanted) return 0;
    if (said.startsWith(wanted)) return 1;
    return parts.every((part) => whole.includes(part)) ? 2 : 3;
  };
  return editor
    .commands()
    .filter(({ run, hidden, words }) => run && !hidden && parts.every((part) => words.toLowerCase().includes(part)))
    .sort((one, other) => rank(one) - rank(other));
}

/** @param {string} text */
function search(text) {
  const wanted = text.trim();
  shown = commandsFor(text);
  if (wanted)
    shown.push({ id: "find", words: `Find “${wanted}” in the graph`, shown: "/", run: () => editor.find(wanted, false) });
  parts().list.replaceChildren(...shown.slice(0, MOST_SHOWN).map(item));
  mark(0);
}

/** @param {Command} command @param {number} k */
function item(command, k) {
  const keys = editor.keysOf(command),
    how = { role: "option", id: `palette-${k}`, onclick: () => run(k) };
  return make("li", how, make("span", {}, command.words), keys ? make("kbd", {}, keys) : "");
}

/** @param {number} k */
function mark(k) {
  const { field, list } = parts();
  chosen = k;
  editor.highlight(list, field, chosen);
}

/** @param {number} k */
function run(k) {
  closePalette();
  shown[k]?.run?.();
}

editor.on("input", ".palette-field", (field) => search(field.textContent || ""));
editor.onCapture("keydown", ".palette-field", (_field, event) => {
  const last = Math.min(shown.length, MOST_SHOWN) - 1;
  if (event.key === "ArrowDown") mark(Math.min(chosen + 1, last));
  else if (event.key === "ArrowUp") mark(Math.max(chosen - 1, 0));
  else if (event.key === "Enter") run(chosen);
  else if (event.key === "Escape") closePalette();
  else return;
  event.preventDefault();
  event.stopPropagation();
});
document.addEventListener("pointerdown", (event) => {
  if (!editor.around(event, "#palette")) closePalette();
});

editor.provide({ openPalette, commandsFor });
