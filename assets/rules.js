/* The list of rules: drawn here, and every finished change of a line sends the whole list. */

const { make } = editor,
  RULE = "#rules-list > .rule"; // a line of the list
let drawn = "",
  sent = "",
  known = "",
  drawing = false;

/** @type {Hetero["drawRules"]} */
function drawRules(data) {
  const list = editor.byId("rules-list"),
    text = JSON.stringify(data);
  if (!list || (text === drawn && list.firstChild)) return;
  if (refused(data) || isMarked(data) || typing()) return;
  drawn = text;
  const unfinished = lines().filter((row) => row.dataset.fresh !== undefined),
    focus = /** @type {HTMLInputElement | null} */ (document.activeElement),
    restore = rememberFocus();
  drawing = true; // what is taken away loses its focus, which is not a doing of a person
  list.textContent = "";
  drawing = false;
  data.rules.forEach((rule) => list.append(line(data, /** @type {RuleRow} */ (rule))));
  if (!data.rules.length && !unfinished.length) {
    const means = "A rule sends all ops that a pattern matches to a device, a unit or a codegen",
      example = `op type Conv, first → ${data.targets[0]}`;
    list.append(make("p", { className: "hint wide" }, `No rules. ${means}: “${example}”.`));
  }
  list.append(...unfinished); // a line that is still being written stays, with the cursor in it
  if (focus && unfinished.some((row) => row.contains(focus))) focus.focus();
  restore();
}

/* Who has just gone into a field types there next; letters without a field are keys that paint. */
function rememberFocus() {
  const fields = () => editor.all(`${RULE}:not([data-fresh]) :is(input, select, button)`),
    place = fields().indexOf(/** @type {HTMLElement} */ (document.activeElement)),
    before = /** @type {HTMLInputElement} */ (document.activeElement),
    range = place >= 0 && before.matches("input") ? [before.selectionStart, before.selectionEnd] : null;
  return () => {
    const field = /** @type {HTMLInputElement | undefined} */ (fields()[place]);
    if (!field || field.className !== before.className) return;
    field.focus();
    if (range) field.setSelectionRange(range[0], range[1]);
  };
}

/* Something was typed into an older line and not sent yet: an answer that comes meanwhile must not take it away. */
function typing() {
  const focus = /** @type {HTMLInputElement | null} */ (document.activeElement);
  return Boolean(focus?.closest(`${RULE}:not([data-fresh])`) && focus.matches("input") && focus.value !== focus.defaultValue);
}

/** @param {Messages.RulesData} data */
const plainText = (data) => JSON.stringify(data.rules.map(({ count, near, ...rule }) => rule));

/* A line that the server refused is still there to be corrected, and its rules are the same. */
/** @param {Messages.RulesData} data */
const isMarked = (data) => plainText(data) === known && lines().some((row) => row.classList.contains("refused"));

/* The server kept its rules: what was typed stays, marked, until it is right or taken away. */
/** @param {Messages.RulesData} data */
function refused(data) {
  const plain = plainText(data);
  if (!sent || plain === sent) {
    sent = "";
    return false;
  }
  const same = plain === known;
  lines().forEach((row) => row.classList.toggle("refused", same && !plain.includes(JSON.stringify(read(row)).slice(1, -1))));
  sent = "";
  return same;
}

/** @param {string} className @param {string} label @param {string[][]} options @param {string} value */
function choice(className, label, options, value) {
  const items = options.map(([v, text]) => make("option", { value: v, selected: v === value }, text));
  return make("select", { className, ariaLabel: label }, ...items);
}

/** @param {string} className @param {string} label @param {string} value @param {string} placeholder */
const field = (className, label, value, placeholder) =>
  make("input", { className, ariaLabel: label, defaultValue: value, placeholder, spellcheck: false });

/** @param {string} what @param {string} label @param {string} [content] */
const button = (what, label, content) =>
  make(
    "button",
    { className: "mini", title: label, ariaLabel: label, data: { rules: what } },
    content ?? make("span", { className: `icon icon-${what}` }),
  );

/** @param {Messages.RulesData} data @param {RuleRow} rule */
function line(data, rule) {
  const matched = data.kinds.filter((k) => rule[k.kind] !== undefined),
    kinds = matched.length ? matched : data.kinds.slice(0, 1),
    labels = data.kinds.map((one) => [one.kind, one.label]),
    targets = [...new Set([...data.targets, rule.to])].map((target) => [target, target]),
    count = make("span", { className: "rule-count" });
  if (rule.near) {
    const title = `Write ${rule.near}, an op type that the model has`,
      data = { rules: "near", near: rule.near };
    count.append(make("button", { className: "link none", title, data }, `0 matches: ${rule.near}?`));
  } else if (rule.count !== undefined) {
    const className = rule.count ? "link" : "link none",
      title = "Select the ops that this rule matches",
      words = rule.count + (rule.count === 1 ? " match" : " matches");
    count.append(make("button", { className, title, data: { ruleOps: "" } }, words));
  }
  return make(
    "div",
    { className: "rule" },
    make("span", { className: "rule-number" }),
    ...kinds.flatMap(({ kind, example }) => [
      choice("rule-kind", "What is matched", labels, kind),
      field("rule-text", "Pattern", rule[kind] || "", `e.g. ${example}`),
    ]),
    make("span", { className: "hint" }, "of these"),
    field("rule-nth", "Which of them: first, last, a number or a slice", rule.nth || "", "all"),
    make("span", {}, "→"),
    choice("rule-to", "Target", targets, rule.to),
    count,
    button("up", "Earlier"),
    button("down", "Later"),
    button("remove", "Remove the rule", "×"),
  );
}

const KEYS = ["type", "name", "regex", "scope", "layer", "tensor", "nth", "to"]; // in the order in which the server writes them
const lines = () => editor.all(RULE);

/** @param {HTMLElement} field */
const trimmed = (field) => /** @type {HTMLInputElement} */ (field).value.trim();

/** @param {HTMLElement} row */
function read(row) {
  /** @type {RuleRow} */
  const rule = {};
  const kinds = editor.all(".rule-kind", row).map(trimmed);
  editor.all(".rule-text", row).forEach((field, k) => {
    if (trimmed(field)) rule[kinds[k]] = trimmed(field);
  });
  const nth = trimmed(editor.one(".rule-nth", row));
  if (nth && nth !== "all") rule.nth = nth;
  rule.to = trimmed(editor.one(".rule-to", row));
  return rule;
}

/** A line without a pattern is not finished yet. @param {RuleRow} rule */
const finished = (rule) => Object.keys(rule).some((key) => key !== "to" && key !== "nth");

function send() {
  const rules = lines().map(read).filter(finished),
    order = (/** @type {RuleRow} */ rule) => Object.fromEntries(KEYS.filter((k) => k in rule).map((k) => [k, rule[k]]));
  sent = JSON.stringify(rules.map(order));
  known = plainText(page.view.rules);
  if (sent === known) {
    sent = "";
    lines().forEach((row) => row.classList.remove("refused"));
    return;
  }
  lines().forEach((row) => {
    if (!finished(read(row))) return;
    delete row.dataset.fresh;
    for (const input of row.querySelectorAll("input")) input.defaultValue = input.value;
  });
  drawn = ""; // whatever the server makes of it is drawn
  editor.edit({ do: "rules", rules: rules });
}

/** @type {Hetero["rulesButton"]} */
function rulesButton(what, pressed) {
  const list = editor.one("#rules-list");
  if (what === "add") {
    const fresh = line(page.view.rules, { to: page.view.rules.targets[0] });
    fresh.dataset.fresh = "";
    if (!lines().length) list.textContent = "";
    list.append(fresh);
    editor.one(".rule-text", fresh).focus();
    return;
  }
  const row = pressed.closest(RULE);
  if (!row) return;
  if (what === "up" && row.previousElementSibling) list.insertBefore(row, row.previousElementSibling);
  else if (what === "down" && row.nextElementSibling) list.insertBefore(row.nextElementSibling, row);
  else if (what === "remove") row.remove();
  else if (what === "near") {
    const at = editor.all(".rule-kind", row).map(trimmed).indexOf("type");
    /** @type {HTMLInputElement} */ (editor.all(".rule-text", row)[at]).value = pressed.dataset.near || "";
  }
  send();
}

/** @type {Hetero["ruleOps"]} */
const ruleOps = (pressed) => {
  const row = pressed.closest(RULE);
  if (row) editor.edit({ do: "rule-ops", rule: lines().indexOf(row) });
};

/* A pattern of the kind before stays only where it matches something as the new kind: else a line is to be written anew. */
/** @param {HTMLSelectElement} kind @param {HTMLElement} row */
async function kindChanged(kind, row) {
  const chosen = page.view.rules.kinds.find((one) => one.kind === kind.value),
    text = /** @type {HTMLInputElement} */ (kind.nextElementSibling),
    before = text.value;
  if (chosen) text.placeholder = `e.g. ${chosen.example}`;
  if (!before.trim()) return;
  const found = await editor.patternMatches(kind.value, before.trim()).catch(editor.complain);
  if (!found || text.value !== before || !row.isConnected) return; // who types meanwhile sends it
  if (found.count) {
    send();
    return;
  }
  text.value = "";
  editor.one(".rule-count", row).textContent = "";
}

/* A line with a pattern is sent when a field of it has changed, when it is left, and when Enter is pressed. */
editor.on("change", RULE, (row, event) => {
  const changed = editor.targetOf(event);
  if (drawing) return;
  if (changed.matches(".rule-kind")) kindChanged(/** @type {HTMLSelectElement} */ (changed), row);
  else if (finished(read(row))) send();
});
editor.on("focusout", `${RULE}[data-fresh]`, (row, event) => {
  if (!drawing && !row.contains(/** @type {Node | null} */ (event.relatedTarget)) && finished(read(row))) send();
});
editor.on("keydown", `${RULE} input`, (field, event) => {
  if (event.key !== "Enter") return;
  event.preventDefault(); // the field would tell of its change too, and the list be sent twice
  delete field.closest(RULE)?.dataset.fresh;
  send();
});

/**
 * A file that a person chose: what it says becomes an edit, which can be undone.
 * @param {"rules" | "affinities"} what
 * @param {string} id of the field
 * @param {string | null} contents
 * @param {string} name
 */
async function bring(what, id, contents, name) {
  if (!contents) return;
  editor.set(id, { contents: null }); // the same file can be chosen again
  const bytes = Uint8Array.from(atob(contents.split(",")[1] ?? ""), (letter) => letter.charCodeAt(0));
  try {
    const address = `/d/${page.view.document}/imports?what=${what}&name=${encodeURIComponent(name || what)}`;
    const { edit } = await (await editor.request(address, { method: "POST", body: bytes })).json();
    editor.edit(edit);
  } catch (error) {
    editor.complain(error);
  }
}

editor.provide({ drawRules, rulesButton, ruleOps });
editor.callbacks({
  rulesFile: (/** @type {string | null} */ contents, /** @type {string} */ name) =>
    bring("rules", "rules-file", contents, name),
  importFile: (/** @type {string | null} */ contents, /** @type {string} */ name) =>
    bring("affinities", "import-file", contents, name),
});
