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

  /** @type {Hetero["openPalette"]} */
  function openPalette() {
    const { box, field } = parts();
    if (!box || !page.view) return;
    box.hidden = false;
    field.textContent = "";
    field.focus();
    search("");
  }

  /** @type {Hetero["closePalette"]} */
  function closePalette() {
    const { box } = parts();
    if (!box || box.hidden) return false;
    box.hidden = true;
    return true;
  }

  /** @param {string} text */
  function search(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean),
      wanted = text.trim();
    shown = editor
      .commands()
      .filter((command) => command.run && !command.hidden && words.every((w) => command.words.toLowerCase().includes(w)));
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

  editor.provide({ openPalette, closePalette });
})(window.hetero);
