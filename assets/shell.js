/* Panels that can be resized, devices that can be dragged, links and copies. */

const KEY = "hetero-editor-panels";
/** @type {Record<PanelName, [number, number]>} */
const LIMITS = { tools: [170, 460], inspector: [200, 620], dock: [90, 900] };

const NAMES = /** @type {PanelName[]} */ (Object.keys(LIMITS));

/* ---- resizable panels that remember ---- */

const remembered = () => editor.kept(KEY) ?? {};

function restorePanels() {
  const element = editor.one("#editor"),
    sizes = remembered();
  NAMES.forEach((name) => {
    element.classList.toggle(`no-${name}`, sizes.hidden?.[name] ?? name === "dock");
    if (sizes[name]) element.style.setProperty(`--${name}`, `${clamped(name, sizes[name])}px`);
  });
}

/* Dash's upload fields have no labels of their own. */
function labelFields() {
  for (const field of editor.all("input[type=file]:not([aria-label])")) field.ariaLabel = "Choose a file";
  for (const handle of editor.all(HANDLE)) handle.ariaValueNow = String(Math.round(sizeOf(panelOf(handle))));
}

/** Whatever the window, the graph stays visible. @param {PanelName} name @param {number} size */
function clamped(name, size) {
  const most = name === "dock" ? window.innerHeight - 300 : Math.min(LIMITS[name][1], window.innerWidth / 3.2);
  return Math.round(Math.min(Math.max(size, LIMITS[name][0]), Math.max(most, LIMITS[name][0])));
}

window.addEventListener("resize", () => {
  if (editor.byId("editor")) restorePanels();
});

/** @param {PanelName} name @param {number} size */
function resize(name, size) {
  const value = clamped(name, size);
  editor.one("#editor").style.setProperty(`--${name}`, `${value}px`);
  editor.one(`[data-resize="${name}"]`).ariaValueNow = String(value);
  editor.keep(KEY, { ...remembered(), [name]: value });
}

/** @param {PanelName} name */
const sizeOf = (name) => {
  const box = editor.one(`#${name}`).getBoundingClientRect();
  return name === "dock" ? box.height : box.width;
};
/** @type {Record<PanelName, (dx: number, dy: number) => number>} */
const grows = { tools: (dx) => dx, inspector: (dx) => -dx, dock: (_dx, dy) => -dy };

const HANDLE = "[data-resize]";
/** @param {HTMLElement} handle */
const panelOf = (handle) => /** @type {PanelName} */ (handle.dataset.resize);

/* What is folded over the graph closes by a click elsewhere, by Escape and by its own commands. */
/** @param {(box: HTMLElement) => boolean} stays */
const fold = (stays) => {
  const open = editor.all("details:is(.folds, [data-columns])[open]").filter((box) => !stays(box));
  for (const box of open) box.removeAttribute("open");
  return open.length > 0;
};
document.addEventListener("pointerdown", (event) => fold((box) => box.contains(editor.targetOf(event))), true);
editor.on("click", ".folds [data-command]", () => fold(() => false));
document.addEventListener(
  "keydown",
  (event) => {
    if (event.key === "Escape" && fold(() => false)) event.stopPropagation();
  },
  true,
);

editor.on("pointerdown", HANDLE, (handle, event) => {
  const name = panelOf(handle),
    from = { x: event.clientX, y: event.clientY, size: sizeOf(name) };
  event.preventDefault();
  /** @param {PointerEvent} e */
  const move = (e) => resize(name, from.size + grows[name](e.clientX - from.x, e.clientY - from.y));
  handle.setPointerCapture(event.pointerId);
  handle.addEventListener("pointermove", move);
  handle.addEventListener("pointerup", () => handle.removeEventListener("pointermove", move), { once: true });
});
editor.on("dblclick", HANDLE, (handle) => {
  const name = panelOf(handle);
  editor.keep(KEY, { ...remembered(), [name]: undefined });
  editor.one("#editor").style.removeProperty(`--${name}`);
});
editor.on("keydown", HANDLE, (handle, event) => {
  if (!event.key.startsWith("Arrow")) return;
  const name = panelOf(handle);
  event.preventDefault();
  const [dx, dy] = { ArrowLeft: [-16, 0], ArrowRight: [16, 0], ArrowUp: [0, -16], ArrowDown: [0, 16] }[event.key] ?? [0, 0];
  resize(name, sizeOf(name) + grows[name](dx, dy));
});

/** @param {PanelName} name @param {boolean} hidden */
function hide(name, hidden) {
  editor.one("#editor").classList.toggle(`no-${name}`, hidden);
  const sizes = remembered();
  editor.keep(KEY, { ...sizes, hidden: { ...sizes.hidden, [name]: hidden } });
  editor.legend();
}

/* A tab opens the tables, and so does what shows its result there. */
editor.onCapture("click", "#dock [role=tab], #bench-open", (tab) => {
  hide("dock", false);
  if (tab.id === "tabs-tab-compare") editor.compareIfPast(); // the tab was chosen while the tables were hidden
  remember({ tab: tab.id === "bench-open" ? "tabs-tab-benchmark" : tab.id });
});

editor.on("keydown", "#dock [role=tab]", (_tab, { key }) => {
  if (key.startsWith("Arrow") || key === "Home" || key === "End") hide("dock", false);
});

/** @type {Hetero["togglePanel"]} */
function togglePanel(name) {
  const hidden = !editor.one("#editor").classList.contains(`no-${name}`);
  hide(name, hidden);
  if (name === "dock") editor.compareIfPast();
  if (page.cy) editor.settle(page.cy); // the cards cover something else
  const words = { dock: "tables are", tools: "tools are", inspector: "inspector is" }[name];
  editor.say(`The ${words} ${hidden ? "hidden" : "shown"}.`);
}

/* ---- how a document was looked at: its colours and level of detail, for this browser session ---- */

const place = () => `hetero-editor-view-${page.view.document}`;
const viewed = (at = place()) => editor.kept(at, "sessionStorage") ?? {};
/** @type {Hetero["remember"]} */
function remember(what) {
  if (page.view) editor.keep(place(), { ...viewed(), ...what }, "sessionStorage");
}

/** The same model at other sizes opens with the tab and the colours that are chosen. @type {Hetero["takeAlong"]} */
function takeAlong(path) {
  const other = `hetero-editor-view-${path.replace("/d/", "")}`;
  if (!page.view || other === place()) return;
  const { tab, colour } = viewed();
  editor.keep(other, { ...viewed(other), tab, colour }, "sessionStorage");
}

/** A way to other sizes of the model, where nothing was done since: from which a person came, and to which undo led back from.
 * @param {"cameFrom" | "wentTo"} which */
const wayTo = (which) => {
  const way = viewed()[which];
  return way?.step === page.view.step ? way : null;
};

/** @param {{ href: string }} way @param {object} [left] what is remembered there */
function leave(way, left) {
  const there = `hetero-editor-view-${new URL(way.href).pathname.replace("/d/", "")}`;
  if (left) editor.keep(there, { ...viewed(there), ...left }, "sessionStorage");
  window.location.assign(way.href);
}

/* Undo leads back to the sizes that a person came from, and redo to those that undo left. */
function undo() {
  const back = wayTo("cameFrom");
  if (back) leave(back, { wentTo: { href: window.location.href } });
  else editor.edit({ do: "undo" });
}

function redo() {
  const on = wayTo("wentTo");
  if (on) leave(on);
  else editor.edit({ do: "redo" });
}

/** Undo and redo can be pressed where there is something to undo or to do again. */
function showUndo() {
  for (const [id, way, name, key] of /** @type {const} */ ([
    ["undo", wayTo("cameFrom"), "Undo", "Ctrl+Z"],
    ["redo", wayTo("wentTo"), "Redo", "Ctrl+Shift+Z"],
  ])) {
    const button = editor.byId(id);
    button?.toggleAttribute("disabled", !page.view[id] && !way);
    if (button) button.title = `${way?.words || name} (${key})`;
  }
}

function recall() {
  const was = viewed(),
    back = /** @type {HTMLAnchorElement | null} */ (document.querySelector('#notice a[href^="/d/"]'));
  if (back) remember({ cameFrom: { href: back.href, words: back.textContent, step: page.view.step } });
  if (was.wentTo && !was.wentTo.step) remember({ wentTo: { ...was.wentTo, step: page.view.step } });
  if (was.tab) editor.set("tabs", { value: was.tab.replace("tabs-tab-", "") });
  if (page.detail === undefined) {
    // the first elements are still on their way
    if (was.detail || was.view) setTimeout(recall, 40);
    return;
  }
  if (was.colour && was.colour !== "device") editor.set("colour-by", { value: was.colour });
  page.back = was.view;
  if (was.detail?.mode) editor.askDetail({ do: "restore", detail: was.detail });
  else editor.comeBack();
}

/* ---- dragging devices changes their priority ---- */

/** @type {HTMLElement | null} */
let dragged = null;
/** @type {{ name: string, below: boolean } | null} */
let goal = null;
/** @param {HTMLElement} row */
const nameOf = (row) => editor.one("[data-device]", row).dataset.device || "";
/** Which row is dragged, and beside which one it would be dropped. @param {HTMLElement} [over] @param {boolean} [below] */
const markRows = (over, below) =>
  editor.all(".device-row").forEach((row) => {
    row.classList.toggle("dragged", row === dragged);
    row.classList.toggle("drop-above", row === over && row !== dragged && !below);
    row.classList.toggle("drop-below", row === over && row !== dragged && Boolean(below));
  });

document.addEventListener("dragstart", (event) => {
  dragged = editor.around(event, ".device-row");
  if (dragged && event.dataTransfer) event.dataTransfer.effectAllowed = "move";
  markRows();
});
editor.on("dragover", ".device-row", (row, event) => {
  if (!dragged) return;
  event.preventDefault();
  const box = row.getBoundingClientRect();
  goal = { name: nameOf(row), below: event.clientY > box.top + box.height / 2 };
  markRows(row, goal.below);
});
document.addEventListener("dragend", () => {
  if (!dragged) return;
  const moved = nameOf(dragged),
    before = page.view.devices.map((d) => d.name);
  if (goal && goal.name !== moved) {
    const names = before.filter((name) => name !== moved);
    names.splice(names.indexOf(goal.name) + (goal.below ? 1 : 0), 0, moved);
    if (names.join("\n") !== before.join("\n")) editor.edit({ do: "order", names: names });
  }
  dragged = goal = null;
  markRows();
});

/* ---- a link to the selection ---- */

/* The op that the address names is selected when the page opens, or a tab shown. After a reload it stays where it was. */
function openLink() {
  if (window.location.hash === "#benchmark") editor.commandOf("show-Benchmark")?.run?.();
  const op = Number((window.location.hash.match(/^#op=(\d+)$/) || [])[1]);
  if (page.index.has(op)) setTimeout(() => editor.bringOp(op, Boolean(viewed().view)), 150);
}

window.addEventListener("hashchange", () => {
  if (page.view) openLink();
});

/** @type {Hetero["showLink"]} */
function showLink(ops) {
  const hash = ops.length === 1 ? `#op=${ops[0]}` : "";
  if (window.location.hash !== hash) window.history.replaceState(window.history.state, "", window.location.pathname + hash);
}

/** @type {Hetero["copy"]} */
function copy(text, said) {
  const done = () => editor.say(`${said || "Copied"}.`),
    failed = () => editor.say("The browser does not allow copying.");
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, failed);
  else failed();
}

const copyLink = () => {
  showLink(editor.selectedOps());
  copy(window.location.href, "Link copied");
};

/** What was asked for may come below what the panel shows. @param {unknown} children @param {string} id */
function intoView(children, id) {
  setTimeout(() => {
    const box = editor.byId(id);
    if (children && box) box.scrollIntoView({ block: "nearest" });
  }, 50);
}

editor.provide({
  labelFields,
  remember,
  recall,
  takeAlong,
  undo,
  redo,
  showUndo,
  restorePanels,
  openLink,
  showLink,
  copy,
  copyLink,
  togglePanel,
});
editor.callbacks({ intoView });
