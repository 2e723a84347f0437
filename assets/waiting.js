/* A bar at the top of the page while the server has been working on something for more than half a second:
   edits, other sizes, comparisons, exports, tables, blocks; where it solves plans, with words and a way out. Jobs have
   bars of their own, with their share done. */

const { make } = editor,
  SOON = 500,
  words = make("span", { className: "unseen" }),
  bar = make("div", { id: "waiting", hidden: true, role: "status" }, words),
  what = make("span"),
  cancel = make("button", { type: "button", className: "button", onclick: askToCancel }, "Cancel"),
  solving = make("div", { id: "solving", hidden: true }, what, cancel);
document.body.append(bar, solving);

let open = 0,
  timer = 0;
/** @type {Messages.Progress | null} */
let work = null; // what the server said last

function askToCancel() {
  cancel.disabled = true;
  editor.ask("cancel", {}).catch(editor.complain);
}

function inWords() {
  if (work) return `${work.label}${work.total ? ` (${work.done + 1} of ${work.total})` : ""} …`;
  return editor.waitingEdits() > 0 && editor.reachable() ? "Solving the placement …" : "";
}

function show() {
  const text = inWords();
  bar.hidden = false;
  solving.hidden = !text;
  what.textContent = text;
  cancel.hidden = Boolean(work && !work.cancellable);
  words.textContent = text || "Working …";
  stale(editor.waitingEdits() > 0);
}

/** @param {boolean} is whether the figure at the top is that of the plan before */
const stale = (is) => editor.byId("verdict")?.classList.toggle("stale", is);

function begun() {
  cancel.disabled = false;
  show();
}

/** @type {Hetero["showWork"]} */
function showWork(now) {
  if (!now) cancel.disabled = false; // what was cancelled has ended
  work = now;
  if (open && !bar.hidden) show();
}

function begin() {
  open += 1;
  if (open > 1) return;
  timer = window.setTimeout(begun, SOON);
}

function end() {
  open -= 1;
  if (open) return;
  clearTimeout(timer);
  bar.hidden = solving.hidden = true;
  stale(false);
  words.textContent = "";
  work = null;
}

/* Dash says nowhere that it waits for an answer, so its requests are counted here, and others that may take long. */
const LONG = /_dash-update-component|\/_page\?|\/(edits|drawing|panes|versions|comparison|imports|calibrate)(\?|$)/;
/* Nobody waits for what stands below the policy: it comes a second after the last edit. */
const UNASKED = '"output":"better.children"';
const ask = window.fetch;
window.fetch = (input, options) => {
  const answer = ask(input, options);
  const isLong = LONG.test(String(input instanceof Request ? input.url : input));
  if (!isLong || String(options?.body ?? "").includes(UNASKED)) return answer;
  begin();
  answer.then(end, end);
  return answer;
};

editor.provide({ showWork });
