/* All commands in one table: keys, buttons, palette, context menu and help sheet are made from it.
   A button runs a command by having its id, or by `data-command`; other buttons are in `BUTTONS` of keyboard.js. */

const { make } = editor;

/** @param {string} id */
const click = (id) => editor.byId(id)?.click();

/** @param {string} name */
const tab = (name) => {
  const found = editor.all("#dock [role=tab]").find((each) => each.textContent === name);
  found?.click();
};

/* What a tab answers, in words that people look for. */
const ANSWERS = /** @type {Record<string, string>} */ ({
  Fallbacks: "why ops are where they are, what would be faster",
  Memory: "limits, the longest context",
  Benchmark: "measure, profile, earlier results",
  Compare: "layouts, policies and not splitting",
});

/** @param {string} name @returns {Command} */
function showTab(name) {
  const more = ANSWERS[name] ? `: ${ANSWERS[name]}` : "";
  return { id: `show-${name}`, words: `Show ${name.toLowerCase()}${more}`, run: () => tab(name) };
}

const blocks = () => page.detail?.mode === "blocks";
const forced = () => page.view?.ops.filter((_, i) => page.view?.pin[i] === 2) ?? [];
const selectedNodes = () => (page.cy ? page.cy.nodes(".op:selected").toArray() : []);

/** @param {(ops: number[]) => void} act */
function withSelection(act) {
  const ops = editor.selectedOps();
  if (ops.length) act(ops);
  else editor.say("Select something first.");
}

const unpinSelection = () => withSelection((ops) => editor.edit({ do: "unpin", ops }));

function paintSelection() {
  if (editor.painting()) withSelection(editor.paintOrUnpin);
}

/* Presses the button of the menu, which need not be open. */
const savePlan = () =>
  window.dash_clientside.set_props({ type: "export", what: "plan.json" }, { n_clicks: Math.round(performance.now()) });

function endTool() {
  if (editor.closeContextMenu() || editor.closePanes()) return;
  if (editor.toggleHelp(false)) return;
  editor.closeNotice();
  page.region = null;
  editor.setBrush("select");
  editor.unmark();
  if (/** @type {HTMLInputElement | null} */ (editor.byId("find"))?.value) editor.set("find", { value: "" });
  editor.selectNothing();
}

/* The form of the sizes, at the field for the past tokens of a language model. */
function changeContext() {
  click("sizes-open");
  setTimeout(() => {
    const field = /** @type {HTMLInputElement | null} */ (document.querySelector(".context input"));
    field?.focus();
    field?.select();
  }, 50);
}

/** @type {Command[]} */
const FIXED = [
  { id: "brush-select", words: "Select and move", keys: ["V"], run: () => editor.setBrush("select") },
  { id: "brush-unpin", words: "Brush: unpin", keys: ["U"], run: () => editor.setBrush("unpin") },
  { id: "box", words: "Select or paint a box", keys: [], shown: "Shift-drag" },
  { id: "unpin-selection", words: "Unpin the selection", keys: ["Delete"], run: unpinSelection, menu: "selection" },
  {
    id: "unpin-forced",
    words: "Unpin what is forced onto devices that do not take it",
    run: () => editor.edit({ do: "unpin", ops: forced() }),
  },
  {
    id: "select-all",
    words: "Select all ops",
    keys: ["Ctrl+A"],
    where: "graph",
    run: () => editor.selectOps(page.view.ops),
    menu: "ground",
  },
  { id: "paint-selection", words: "Paint the selection with the brush", keys: [" "], where: "graph", run: paintSelection },
  { id: "undo", words: "Undo", keys: ["Ctrl+Z"], run: () => editor.undo(), menu: "ground" },
  { id: "redo", words: "Redo", keys: ["Ctrl+Shift+Z", "Ctrl+Y"], run: () => editor.redo(), menu: "ground" },
  {
    id: "keep-others",
    words: "Keep the ops that the last stroke moved, too, where they were",
    run: () => editor.edit({ do: "keep-others" }),
  },
  ...growCommands(),
  { id: "region", words: "Region: connected ops of one colour", keys: ["R"], run: () => editor.setRegion("region") },
  { id: "between", words: "Region: everything between two ops", keys: ["B"], run: () => editor.setRegion("between") },
  {
    id: "open-block",
    words: "Open the block, or the one under the pointer",
    keys: ["E", "Enter"],
    shown: "E, Enter, double click",
    run: () => editor.openByKey(),
    when: blocks,
    menu: "block",
  },
  {
    id: "close-block",
    words: "Close the block around",
    keys: ["C"],
    shown: "C, double click on its frame",
    run: () => editor.close(selectedNodes()),
    when: blocks,
    menu: "selection",
  },
  {
    id: "open-level",
    words: "Open all blocks one level deeper",
    keys: ["Shift+E"],
    run: () => editor.askDetail({ do: "level", deeper: true }),
    menu: "ground",
  },
  {
    id: "close-level",
    words: "Close all blocks",
    keys: ["Shift+C"],
    run: () => editor.askDetail({ do: "level", deeper: false }),
    menu: "ground",
  },
  ...["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"].map(
    /** @returns {Command} */ (key) => ({
      id: key,
      words: "Along the edges, and within a row",
      keys: [key],
      shown: "Arrow keys",
      where: "graph",
      run: () => editor.step(key),
      hidden: true,
    }),
  ),
  { id: "zoom-fit", words: "Fit the graph", keys: ["F"], run: () => editor.fit(), menu: "ground" },
  { id: "zoom-selection", words: "Zoom to the selection", keys: ["Z"], run: () => editor.zoomToSelection(), menu: "selection" },
  { id: "zoom-in", words: "Zoom in", keys: ["+", "="], shown: "+", run: () => editor.zoom(1.3) },
  { id: "zoom-out", words: "Zoom out", keys: ["-"], shown: "−", run: () => editor.zoom(1 / 1.3) },
  { id: "next-change", words: "Next device switch", keys: ["]"], run: () => editor.stepChange(1), menu: "ground" },
  { id: "previous-change", words: "Previous device switch", keys: ["["], run: () => editor.stepChange(-1), menu: "ground" },
  { id: "map-toggle", words: "Map of the whole model", keys: ["M"], run: () => editor.toggleMap(), menu: "ground" },
  { id: "reset", words: "Reset to automatic: remove all pins", run: () => editor.edit({ do: "reset" }), menu: "ground" },
  {
    id: "find-field",
    words: "Find; or filter by a condition",
    keys: ["/", "Ctrl+F"],
    where: "everywhere",
    run: () => editor.byId("find")?.focus(),
  },
  {
    id: "open-model",
    words: "Open another model",
    keys: ["Ctrl+O"],
    where: "everywhere",
    run: () => editor.one("#header .home").click(),
  },
  {
    id: "save-plan",
    words: "Save plan.json (every step is kept anyway)",
    keys: ["Ctrl+S"],
    where: "everywhere",
    run: savePlan,
  },
  ...["Fallbacks", "Subgraphs", "Transfers", "Memory", "Benchmark", "Devices", "Rules", "Compare"].map(showTab),
  ...inTab("Benchmark", { "bench-start": "Run the benchmark", "bench-profile": "Profile the ops" }),
  ...inTab("Benchmark", { "bench-tune": "Tune: try the best plans for real" }),
  ...inTab("Benchmark", { "bench-accuracy": "Accuracy: compare every tensor with the unsplit model" }),
  ...inTab("Compare", { "compare-start": "Compare layouts" }),
  ...inTab("Fallbacks", { "hints-start": "Suggest improvements", "advise-start": "Try other forms of ops that fall back" }),
  ...["tools", "inspector", "dock"].map(
    /** @returns {Command} */ (name) => ({
      id: `toggle-${name}`,
      words: `Show or hide the ${name === "dock" ? "tables" : name}`,
      keys: [{ tools: "Shift+T", inspector: "Shift+I", dock: "Shift+B" }[name] || ""],
      run: () => editor.togglePanel(/** @type {PanelName} */ (name)),
    }),
  ),
  {
    id: "change-sizes",
    words: "Change the input sizes",
    run: () => (editor.byId("sizes-open") ? click("sizes-open") : editor.say("The file fixes all sizes of this model.")),
  },
  {
    id: "longest-context",
    words: "Open the longest context that fits within memory",
    run: () => editor.set("sizes-longest", { n_clicks: Date.now() }),
  },
  { id: "change-context", words: "Change the length of the context", run: changeContext, hidden: true },
  { id: "picture-png", words: "Picture of the view, PNG", run: () => editor.picture("png") },
  { id: "picture-svg", words: "Picture of the view, SVG", run: () => editor.picture("svg") },
  { id: "picture-graph-png", words: "Picture of the graph, PNG", run: () => editor.picture("png whole") },
  { id: "picture-graph-svg", words: "Picture of the graph, SVG", run: () => editor.picture("svg whole") },
  { id: "toggle-shapes", words: "Show or hide the shapes on edges", run: () => editor.toggleShapes(), menu: "ground" },
  { id: "copy-link", words: "Copy a link to the selection", run: () => editor.copyLink(), menu: "selection" },
  { id: "scheme-toggle", words: "Light or dark", run: () => editor.toggleScheme() },
  { id: "show-export", words: "Export … (report, configs, split models, DOT, kit)", run: () => click("export") },
  { id: "show-import", words: "Import affinities, rules or a measured profile (tab Rules)", run: () => tab("Rules") },
  { id: "show-devices", words: "State speeds, memory and links (tab Devices)", run: () => tab("Devices") },
  { id: "show-kits", words: "Kit: measure a device where it is (tab Devices)", run: () => tab("Devices") },
  {
    id: "context-menu",
    words: "Menu for the selection",
    keys: ["ContextMenu", "Shift+F10"],
    shown: "Right click, Shift+F10",
    run: () => editor.openContextMenu(null),
  },
  {
    id: "palette-open",
    words: "All commands, found by typing",
    keys: ["Ctrl+K", "Ctrl+P"],
    shown: "Ctrl+K",
    where: "everywhere",
    run: () => editor.openPalette(),
  },
  { id: "help-open", words: "Keyboard and words", keys: ["?", "H"], run: () => editor.toggleHelp() },
  { id: "end-tool", words: "End the tool, clear the selection", keys: ["Escape"], shown: "Esc", run: endTool, hidden: true },
  { id: "close-notice", words: "Close the message", run: () => editor.closeNotice(), hidden: true },
  { id: "close-weights", words: "Close what is said of weights", run: () => editor.closeWeights(), hidden: true },
  { id: "panes-open", words: "Ticked layouts side by side", run: () => editor.openPanes(), hidden: true },
  { id: "panes-attach", words: "HTML report of the ticked layouts", run: () => editor.downloadComparison(), hidden: true },
];

/** @returns {Command[]} */
function growCommands() {
  /** @type {[Messages.Grow["how"], string, string][]} */
  const ways = [
    ["type", "T", "all ops of the same type"],
    ["alike", "L", "the same op in every layer"],
    ["block", "K", "the block around"],
    ["subgraph", "S", "its subgraph"],
    ["upstream", "A", "everything upstream"],
    ["downstream", "D", "everything downstream"],
    ["neighbours", "N", "its neighbours"],
  ];
  return ways.map(([how, key, words]) => ({
    id: `grow-${how}`,
    words: `Grow the selection to ${words}`,
    keys: [key],
    run: () => editor.grow(how),
    menu: "selection",
  }));
}

/**
 * Buttons of a tab that run from anywhere.
 * @param {string} name
 * @param {Record<string, string>} buttons
 * @returns {Command[]}
 */
function inTab(name, buttons) {
  return Object.entries(buttons).map(([id, words]) => ({
    id: `run-${id}`,
    words,
    run: () => {
      tab(name);
      click(id);
      setTimeout(() => editor.byId(id)?.scrollIntoView({ block: "nearest" }), 0); // once the tab is shown
    },
  }));
}

/**
 * Choices of a list of the page.
 * @param {string} list
 * @param {string} words
 * @param {Record<string, string>} values
 * @returns {Command[]}
 */
function choices(list, words, values) {
  return Object.entries(values).map(([value, name]) => ({
    id: `${list}-${value}`,
    words: `${words} ${name}`,
    run: () => editor.set(list, { value }),
  }));
}

const CHOICES = [
  ...choices("colour-by", "Colour by", {
    device: "device",
    "level-device": "device kind",
    "level-unit": "unit",
    "level-codegen": "codegen",
    subgraph: "subgraph",
    heat: "time",
    weight: "memory",
    error: "error, signal to noise",
    pinned: "pinned",
  }),
  ...choices("detail-mode", "Draw", { ops: "every op", blocks: "blocks", subgraphs: "subgraphs" }),
  ...choices("policy", "Policy:", {
    priority: "priority, first capable device",
    "optimal:latency": "optimal, least latency",
    "optimal:throughput": "optimal, throughput",
    memory: "optimal within memory",
    pipeline: "pipeline",
  }),
  ...choices("costs", "Costs:", { estimate: "estimated from shapes", measured: "from a profile" }),
];

/* Of models that take a prompt and then one token at a time. */
const PHASES = [
  showTab("Phases"),
  ...inTab("Phases", { "phases-start": "Place both phases: the prompt (prefill), then token by token (decode)" }),
];

/** @returns {Command[]} */
function deviceCommands() {
  const devices = page.view ? page.view.devices : [];
  return [
    ...devices.map(
      /** @returns {Command} */ (device, i) => ({
        id: `brush-${i}`,
        words: `Brush: paint with ${device.name}`,
        keys: i < 9 ? [String(i + 1)] : [],
        run: () => editor.setBrush(String(i)),
      }),
    ),
    ...devices.map(
      /** @returns {Command} */ (device, i) => ({
        id: `pin-${i}`,
        words: `Pin the selection to ${device.name}`,
        swatch: device.fill,
        keys: i < 9 ? [`Alt+${i + 1}`] : [],
        run: () => withSelection((ops) => editor.paint(ops, i)),
        menu: "selection",
      }),
    ),
  ];
}

const commands = () => [
  ...deviceCommands(),
  ...CHOICES,
  ...FIXED.map((command) => (command.id === "find-field" ? withExample(command) : command)),
  ...(editor.byId("phases-start") ? PHASES : []),
];

/** Names a filter that finds something in this model. @param {Command} command */
function withExample(command) {
  const filter = editor.byId("palette")?.dataset.filter;
  return filter ? { ...command, words: `${command.words}: ${filter}` } : command;
}

/** @type {Hetero["commandOf"]} */
const commandOf = (id) => commands().find((command) => command.id === id);

/** @type {Hetero["commandForKey"]} */
const commandForKey = (key) => commands().find((command) => command.keys?.includes(key));

/** @type {Hetero["keysOf"]} */
const keysOf = (command) => command.shown || (command.keys || []).map((key) => (key === " " ? "Space" : key)).join(", ");

/* Headings of the help sheet, and the commands below each by their ids; a command is below the first that has it. */
const GROUPS = /** @type {[string, RegExp][]} */ ([
  ["Place ops", /^(brush|pin|box$|unpin|paint|keep-others|undo|redo|reset)/],
  ["Select", /^(select|grow|region|between|context|end-tool)/],
  ["Blocks", /(block|level)$/],
  ["Move around", /^(Arrow|zoom|find|map)|change$/],
  ["Page", /./],
]);

/* The help sheet has what a key or a gesture does, each once. */
function helpGroups() {
  const groups = GROUPS.map(([heading, ids]) => ({ heading, ids, rows: /** @type {Map<string, string>} */ (new Map()) })),
    seen = new Set();
  for (const command of commands()) {
    const keys = keysOf(command);
    if (keys && !seen.has(keys)) groups.find(({ ids }) => ids.test(command.id))?.rows.set(keys, command.words);
    seen.add(keys);
  }
  return groups;
}

/** @param {ReturnType<typeof helpGroups>[0]} group */
function helpGroup({ heading, rows }) {
  const title = make("th", { colSpan: 2, scope: "rowgroup" }, heading),
    each = [...rows].map(([keys, words]) => make("tr", {}, make("td", {}, make("kbd", {}, keys)), make("td", {}, words)));
  return make("tbody", {}, make("tr", {}, title), ...each);
}

/** @type {HTMLElement | null} */
let cameFrom = null; // what had the focus before the help sheet

/** @type {Hetero["toggleHelp"]} */
function toggleHelp(on) {
  const sheet = editor.byId("help"),
    table = sheet?.querySelector("table");
  if (!sheet || !table) return false;
  const shown = !sheet.hidden;
  sheet.hidden = on === undefined ? shown : !on;
  if (sheet.hidden) {
    if (shown) cameFrom?.focus?.();
    return shown;
  }
  cameFrom = /** @type {HTMLElement | null} */ (document.activeElement);
  table.replaceChildren(...helpGroups().map(helpGroup));
  sheet.scrollTop = 0;
  sheet.focus(); // its arrow keys scroll it
  return true;
}

editor.provide({ commands, commandOf, commandForKey, keysOf, toggleHelp });
