/* The search field: blocks, ops and tensors from the server, commands and devices from the table of commands. */

const { make } = editor,
  WAIT = 120,
  MOST_COMMANDS = 5,
  MOST_LETTERS = 500;
let timer = 0,
  number = 0,
  chosen = -1;
/** @type {Messages.SearchResults | null} */
let found = null;
/** @type {{ kind: string; title: string; detail: string; ops?: string; block?: string; run(): void }[]} */
let rows = [];
/** What was asked of the results while they were on their way. @type {((ops: number[]) => void) | null} */
let waiting = null;

const field = () => /** @type {HTMLInputElement | null} */ (editor.byId("find"));
const box = () => editor.byId("search-box");
const typed = () => field()?.value ?? "";

function close() {
  const element = box();
  if (element && !element.hidden) editor.emphasise(null);
  if (element) element.hidden = true;
  expanded(false);
  chosen = -1;
  field()?.removeAttribute("aria-activedescendant");
}

/** @param {string} text */
function ask(text) {
  clearTimeout(timer);
  found = waiting = null;
  number += 1; // what is on its way for the letters before is not for these
  if (!text.trim()) {
    close();
    return;
  }
  const asked = number;
  timer = window.setTimeout(async () => {
    const data = await editor.ask(`search?text=${encodeURIComponent(text.slice(0, MOST_LETTERS))}`).catch(editor.complain);
    if (data && asked === number) arrived(data);
  }, WAIT);
}

/** @param {string} text */
const isFilter = (text) => /[<>]|==|!=|\bin\s*\(/.test(text);

/** @param {string} text a search that names ops by what they have in common: `layer:8-15` */
const hasField = (text) => /(^|\s)\w+:(?!:)\S/.test(text);

/** @param {Messages.SearchRow} row */
function go(row) {
  const ops = editor.opsIn(row.ops);
  if (ops.length === 1) editor.goTo(`op${ops[0]}`);
  else editor.selectOps(ops, true);
  toGraph();
}

/* What was found is selected: the keys belong to the graph, as those of devices do. Its frame appears with the first of them. */
function toGraph() {
  const canvas = editor.byId("canvas");
  if (!canvas) return;
  canvas.classList.add("unframed");
  canvas.focus({ preventScroll: true });
  const frame = () => canvas.classList.remove("unframed");
  for (const event of ["keydown", "blur"]) canvas.addEventListener(event, frame, { once: true });
}

/** @param {string} text */
function complete(text) {
  const input = field();
  if (!input) return;
  editor.set("find", { value: text });
  input.focus();
  ask(text);
}

/** @param {Messages.SearchResults} data */
function allRows(data) {
  const text = typed(),
    commands = isFilter(text) ? [] : editor.commandsFor(text);
  return [
    ...data.completions.map((text) => ({ kind: "filter", title: text, detail: "", run: () => complete(text) })),
    ...data.rows.map((row) => ({ ...row, run: () => go(row) })),
    ...commands.slice(0, MOST_COMMANDS).map((each) => ({
      kind: "command",
      title: each.words,
      detail: editor.keysOf(each),
      run: () => each.run?.(),
    })),
  ];
}

/** The field is a combobox of the list below it, which takes no focus. @param {boolean} on */
function expanded(on) {
  const now = { role: "combobox", "aria-controls": "search-list", "aria-expanded": String(on) };
  for (const [name, value] of Object.entries(now)) field()?.setAttribute(name, value);
}

/** @param {Messages.SearchResults} data */
function arrived(data) {
  const element = box(),
    list = editor.byId("search-list"),
    note = editor.byId("search-note");
  if (!element || !list || !note || document.activeElement !== field()) return;
  found = data;
  rows = allRows(data);
  chosen = -1;
  list.replaceChildren(...rows.map(item));
  note.classList.toggle("bad", data.problem !== "");
  element.hidden = false;
  expanded(true);
  preview();
  const act = waiting;
  waiting = null;
  if (act) act(editor.opsIn(data.ops));
}

/** The ops of a result; where it has none, or none is highlighted, all that the text finds. @param {number} k */
const covered = (k) => editor.opsIn(rows[k]?.ops ?? found?.ops ?? "");

/** The graph shows what a result covers. @param {number} k */
function light(k) {
  const ops = covered(k);
  editor.emphasise(ops.length ? ops : null);
}

/* The graph and the note show what the keys would act on. */
function preview() {
  const note = editor.byId("search-note");
  if (!note || !found) return;
  note.textContent = noteOf(found, covered(chosen).length, rows[chosen]?.ops !== undefined);
  light(chosen);
}

/* Does something with the ops of the highlighted result, else with all that the text finds: now, or when they are there. */
/** @param {(ops: number[]) => void} act */
function withFound(act) {
  if (found === null) waiting = act;
  else act(covered(chosen));
}

/** @param {{ kind: string; title: string; detail: string; block?: string }} row @param {number} k */
function item(row, k) {
  const { kind, title, block = "", detail } = row;
  const onpointerdown = (/** @type {Event} */ event) => {
    event.preventDefault(); // the field keeps the focus until the choice is made
    run(k);
  };
  const lights = { onpointerenter: () => light(k), onpointerleave: () => light(chosen) };
  return make(
    "li",
    { id: `search-${k}`, role: "option", ariaSelected: "false", onpointerdown, ...lights },
    make("span", { className: "search-kind" }, kind),
    make("span", { className: "search-title", title }, make("bdi", {}, title)), // cut at its front
    make("span", { className: "search-block", title: block }, block),
    make("span", { className: "search-detail" }, detail),
  );
}

/** Whether the first result is a block of this name, or of a name that ends with it. @param {string} text */
function isNamedBlock(text) {
  const title = rows[0]?.kind === "block" ? rows[0].title.toLowerCase() : "",
    name = text.trim().toLowerCase();
  return title !== "" && (title === name || [".", "/", "::"].some((before) => title.endsWith(before + name)));
}

/** @param {Messages.SearchResults} data @param {number} count @param {boolean} one of the results is highlighted */
function noteOf(data, count, one) {
  if (data.problem) return data.problem.replace(/^./, (letter) => letter.toUpperCase());
  const text = typed();
  if (!count && isFilter(text)) return "No op matches this filter.";
  if (!count) return rows.length ? "No op is called that." : "Nothing is called that.";
  const paint = page.view ? ` · Alt+1 to ${page.view.devices.length}: paint ${count === 1 ? "it" : "them"}` : "",
    isSet = isFilter(text) || (!one && count > 1 && hasField(text)),
    toBlock = "Enter: go to the block · Shift+Enter: select all",
    all = one && count > 1 ? "Enter: select them" : "Enter: go · Shift+Enter: select all",
    enter = one && count === 1 ? "Enter: go" : isSet ? "Enter: select all" : !one && isNamedBlock(text) ? toBlock : all;
  return `${count} ${count === 1 ? "op" : "ops"} · ${enter}${paint}`;
}

/** @param {number} k */
function run(k) {
  const row = rows[k];
  if (row && row.kind !== "filter") close();
  row?.run();
}

/** @param {number} step */
function move(step) {
  chosen = Math.min(Math.max(chosen + step, -1), rows.length - 1);
  editor.highlight(editor.one("#search-list"), field(), chosen);
  preview();
}

/** @type {Hetero["searchKey"]} */
function searchKey(event) {
  const text = typed(),
    ops = found ? editor.opsIn(found.ops) : [];
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
    return true;
  }
  if (event.altKey && /^[1-9]$/.test(event.key) && page.view && Number(event.key) <= page.view.devices.length && text.trim()) {
    const device = Number(event.key) - 1;
    event.preventDefault();
    withFound((all) => {
      if (!all.length) return;
      close();
      editor.paint(all, device);
    });
    return true;
  }
  if (event.key === "Escape") {
    const open = box()?.hidden === false;
    if (open) close();
    else editor.set("find", { value: "" });
    return open; // then the field loses the focus
  }
  if (event.key !== "Enter") return false;
  if (event.shiftKey && (ops.length || (text.trim() && found === null))) {
    withFound((all) => {
      if (all.length) selectFound(all);
    });
  } else if (chosen >= 0) run(chosen);
  else if (isFilter(text) || !text.trim()) goTo(text, []);
  else
    withFound((all) => {
      if (hasField(text) && all.length > 1) selectFound(all);
      else if (isNamedBlock(text)) run(0);
      else goTo(text, all);
    });
  return true;
}

/** @param {number[]} ops */
function selectFound(ops) {
  close();
  editor.selectOps(ops, true);
  toGraph();
}

/** @param {string} text @param {number[]} ops */
function goTo(text, ops) {
  close();
  clearTimeout(timer);
  if (ops.length) next(ops, page.lastFind === text);
  else editor.find(text, page.lastFind === text);
  page.lastFind = text;
  const selects = isFilter(text) && (found === null || found.ops !== "");
  if (selects || ops.length === 1) toGraph(); // of several, Enter goes to the next one
}

/* Goes to the first op that was found, or with the same text again to the next one. */
/** @param {number[]} ops @param {boolean} again */
function next(ops, again) {
  page.matchNumber = again ? (page.matchNumber + 1) % ops.length : 0;
  editor.goTo(`op${ops[page.matchNumber]}`);
  editor.say(`Match ${page.matchNumber + 1} of ${ops.length} (Enter: next)`);
}

editor.on("input", "#find", (/** @type {HTMLInputElement} */ input) => ask(input.value));
editor.on("focusout", "#find", close);

editor.provide({ searchKey });
