/* Whether the server is there and can store changes, and whether others have changed the document. */

const EVERY = 500,
  PATIENCE = 1300, // together with the pause, a server that is gone is noticed within 2 s
  MOST_LATE = 3;

let trouble = "",
  reached = true,
  late = 0; // answers in a row that did not come in time: a benchmark may take all processors for a moment
/* Why the server could not store the last edits. */
let unstored = "";

/** @param {number} count */
const changes = (count) => (count === 1 ? "1 change waits" : `${count} changes wait`);

function show() {
  const banner = editor.byId("connection");
  if (!banner) return;
  const waiting = editor.waitingEdits(),
    text = trouble || (waiting && unstored);
  banner.hidden = !text;
  if (!text) return;
  const rest = waiting ? ` ${changes(waiting)} and will be sent again by itself.` : "";
  if (banner.dataset.said === text + rest) return; // a button that is replaced while it is pressed is not clicked
  banner.dataset.said = text + rest;
  banner.replaceChildren(editor.make("span", {}, text + rest));
  if (!waiting) return;
  const title = "Forget the changes that were not stored";
  const onclick = () => {
    editor.dropWaiting();
    show();
  };
  banner.append(editor.make("button", { className: "tool small", title, onclick }, "Take back"));
}

/* What was asked while nobody answered is asked again. */
function resume() {
  editor.resend();
  if (page.cy) editor.reportSelection();
  editor.followRun();
}

/** @param {Messages.Status} status */
function heard(status) {
  const before = trouble,
    wasReached = reached;
  reached = true;
  late = 0;
  trouble = status.problem;
  editor.showWork(status.working);
  if (trouble) return;
  if (!wasReached) resume();
  else if (before) editor.resend();
  if (!editor.waitingEdits() && status.version > page.view.version) editor.edit({ do: "show" });
}

/** @param {number} status */
const refused = (status) =>
  status === 403
    ? "The server was started again and asks for its new address: open the one that it printed."
    : `The server answers with an error (${status}).`;

async function ask() {
  if (!page.view || !editor.byId("editor")) return;
  try {
    heard(await editor.ask("status", null, { signal: AbortSignal.timeout(PATIENCE) }));
  } catch (error) {
    const { status, name } = /** @type {{ status?: number, name?: string }} */ (error);
    late = name === "TimeoutError" ? late + 1 : 0;
    if (late && late < MOST_LATE) return;
    reached = status !== undefined;
    trouble = status ? refused(status) : "No connection to the server: is it still running?";
  }
  show();
}

async function watch() {
  await ask();
  setTimeout(watch, EVERY);
}
setTimeout(watch, EVERY);

/** @type {Hetero["showUnstored"]} */
function showUnstored(problem) {
  unstored = problem;
  show();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) ask();
});
window.addEventListener("beforeunload", (event) => {
  if (editor.waitingEdits() && (trouble || unstored)) event.preventDefault();
});

editor.provide({ showUnstored, reachable: () => reached });
