/* The command palette: every command of the table, found by typing. */
((editor) => {
  "use strict";

  const page = editor.page,
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
    if (!box || box.hidden) return false;
    box.hidden = true;
    return true;
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
    chosen = 0;
    const { list } = parts();
    list.textContent = "";
    shown.slice(0, MOST_SHOWN).forEach((command, k) => {
      const item = document.createElement("li"),
        words = document.createElement("span"),
        keys = document.createElement("kbd");
      words.textContent = command.words;
      keys.textContent = editor.keysOf(command);
      item.append(words);
      if (keys.textContent) item.append(keys);
      item.setAttribute("role", "option");
      item.id = `palette-${k}`;
      item.addEventListener("click", () => run(k));
      list.append(item);
    });
    mark();
  }

  function mark() {
    const { field, list } = parts();
    const items = list.querySelectorAll("li");
    items.forEach((item, k) => item.setAttribute("aria-selected", String(k === chosen)));
    if (items[chosen]) items[chosen].scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", `palette-${chosen}`);
  }

  /** @param {number} k */
  function run(k) {
    closePalette();
    shown[k]?.run?.();
  }

  /** @type {Record<string, (last: number) => void>} */
  const KEYS = {
    ArrowDown: (last) => {
      chosen = Math.min(chosen + 1, last);
      mark();
    },
    ArrowUp: () => {
      chosen = Math.max(chosen - 1, 0);
      mark();
    },
    Enter: () => run(chosen),
    Escape: () => closePalette(),
  };

  document.addEventListener("input", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.classList.contains("palette-field")) search(target.textContent || "");
  });
  document.addEventListener(
    "keydown",
    (event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (!target.classList?.contains("palette-field") || !KEYS[event.key]) return;
      event.preventDefault();
      event.stopPropagation();
      KEYS[event.key](Math.min(shown.length, MOST_SHOWN) - 1);
    },
    true,
  );
  document.addEventListener("pointerdown", (event) => {
    if (!(/** @type {HTMLElement} */ (event.target).closest("#palette"))) closePalette();
  });

  editor.provide({ openPalette, closePalette, commandsFor });
})(window.hetero);
