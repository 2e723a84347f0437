/* Keys and buttons: both look up what to do in tables. */

/** As the table of commands names it, e.g. "Ctrl+Z". @param {KeyboardEvent} event */
function keyOf(event) {
  const letter = event.key.length === 1 && event.key !== event.key.toUpperCase();
  const key = letter || /^[A-Z]$/.test(event.key) ? event.key.toUpperCase() : event.key;
  const named = key.length > 1 || /^[A-Z]$/.test(key); // of other keys the character says what Shift did
  return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${event.altKey ? "Alt+" : ""}${event.shiftKey && named ? "Shift+" : ""}${key}`;
}

/** The field that takes the keys. @param {HTMLElement} target */
const fieldOf = (target) => target.closest?.("input, textarea, select, [contenteditable=true]") ?? null;

/** Whether a field has nothing of its own to undo: undo and redo are then those of the plan. @param {HTMLElement} target */
const hasNoUndo = (target) =>
  target.matches("select, [type=checkbox]") ||
  (target.dataset.sent === /** @type {HTMLInputElement} */ (target).value && !editor.byId("device-refused")?.textContent) ||
  (target.matches("#rules-list > .rule:not(.refused, [data-fresh]) input") &&
    /** @type {HTMLInputElement} */ (target).value === /** @type {HTMLInputElement} */ (target).defaultValue);

/** @param {HTMLElement} target */
const inGraph = (target) =>
  Boolean(page.cy) &&
  editor.byId("panes")?.hidden !== false &&
  (target === document.body || target.id === "canvas" || target.closest?.("#graph"));

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLInputElement} */ (event.target);
  if (!editor.byId("editor")) return;
  if (target.id === "find" && editor.searchKey(event)) return;
  const key = keyOf(event),
    command = editor.commandForKey(key);
  if (fieldOf(target)) {
    if (key === "Escape") target.blur();
    else if (command?.where === "everywhere") run(command, event);
    else if (command && /^(undo|redo)$/.test(command.id) && hasNoUndo(target)) run(command, event);
    return;
  }
  if (!command?.run || (command.where === "graph" && !inGraph(target))) return;
  if (event.key === "Enter" && target.closest?.("button, a, [role=menuitem]")) return; // Enter presses what has the focus
  run(command, event);
});

/** @param {Command} command @param {KeyboardEvent} event */
function run(command, event) {
  if (command.id !== "end-tool") event.preventDefault();
  command.run?.();
}

/** @param {string | undefined} text */
const numbers = (text) => (text || "").split(",").map(Number);

/* Where layouts were compared; elsewhere all would be solved for a table that nobody asked for. */
function compareAgain() {
  if (editor.byId("compare-table")) editor.byId("compare-start")?.click();
}

/** @type {Record<string, (value: string, button: HTMLButtonElement) => void>} */
const BUTTONS = {
  brush: (name) => editor.setBrush(name),
  region: (name) => editor.setRegion(name),
  grow: (how) => editor.grow(/** @type {Messages.Grow["how"]} */ (how)),
  raiseDevice: (name) => editor.edit({ do: "raise-device", name }),
  lowerDevice: (name) => editor.edit({ do: "lower-device", name }),
  forgetProfile: (name) => editor.edit({ do: "forget-profile", name }),
  putBackProfile: (name) => editor.edit({ do: "put-back-profile", name }),
  measureAgain: (request) => editor.measure(JSON.parse(request)),
  stateWatts: (asked, button) => editor.stateWatts(JSON.parse(asked), button),
  removeDevice: (name) => editor.edit({ do: "remove-device", name }),
  paint: (device) => editor.paint(editor.selectedOps(), Number(device)),
  force: (ops, button) => {
    editor.paint(numbers(ops), Number(button.dataset.device), true);
    editor.closeNotice();
  },
  hint: (ops, button) => {
    editor.paint(numbers(ops), Number(button.dataset.device));
    button.disabled = true;
  },
  fallback: (what, button) => editor.fallback(what, button.dataset.value || ""),
  goto: (id) => editor.goTo(id),
  unpinOp: (ops) => editor.edit({ do: "unpin", ops: numbers(ops) }),
  allOn: (device) => editor.selectDevice(Number(device)),
  ops: (text) => editor.selectOps(editor.opsIn(text), true),
  there: (address, button) => {
    if (button.dataset.here) editor.goTo(button.dataset.here);
    window.open(address, "hetero-other"); // the same window for all of them, which only jumps
  },
  part: (part) => editor.showPart(Number(part)),
  rules: (what, button) => editor.rulesButton(what, button),
  ruleOps: (_value, button) => editor.ruleOps(button),
  copy: (text) => editor.copy(text),
  weights: (op, button) => {
    button.disabled = true;
    editor.set("selection", { data: { ops: [Number(op)], weights: true } });
  },
  picture: (form) => editor.picture(form),
  label: (label) => editor.edit({ do: "label", ops: editor.selectedOps(), label }),
  pane: (_name, button) => editor.tickPane(button),
  versions: (other) => editor.openVersions(other),
  panesMode: (mode) => editor.setPanesMode(mode),
  panesOnly: (_value, button) => editor.onlyDifferences(button),
  panesStep: (step) => editor.nextDifference(Number(step)),
  panesFit: () => editor.fitPanes(),
  panesClose: () => editor.closePanes(),
  layoutUse: (name) => editor.edit({ do: "use-layout", name }, compareAgain),
  layoutRemove: (name) => editor.edit({ do: "remove-layout", name }, compareAgain),
  layoutShow: (name) => editor.edit({ do: "show-layout", name }),
  phaseUse: (name) => editor.edit({ do: "use-phase", name }),
  adopt: (name) => editor.edit({ do: "adopt", name }),
  step: (step) => editor.edit({ do: "step", step: Number(step) }),
  command: (id) => editor.commandOf(id)?.run?.(),
};

editor.on("click", "button", (/** @type {HTMLButtonElement} */ button) => {
  const data = button.dataset,
    name = Object.keys(BUTTONS).find((each) => data[each] !== undefined);
  if (name) BUTTONS[name](data[name] || "", button);
  else if (button.id) editor.commandOf(button.id)?.run?.();
});

/* After the mouse has chosen from a list over the graph, the keys belong to the graph again. */
let byMouse = false;
for (const type of ["pointerdown", "keydown"])
  document.addEventListener(type, () => {
    byMouse = type === "pointerdown";
  });
editor.on("change", "#detail-mode, #colour-by", (list) => {
  if (byMouse) list.blur();
});

const closeNotice = () => editor.set("notice", { children: null });

editor.provide({ closeNotice });
