/* Edits of the plan: brushes and tools make them, and the server applies them in order. */

const PAGE_ID = Math.random().toString(36).slice(2) + Date.now().toString(36);
const FIRST_RETRY = 5000,
  LAST_RETRY = 60000,
  DOUBLE_CLICK = 500,
  REFUSED = new Set([400, 404, 409, 413, 422]),
  TITLE = 24; // height of a frame's title

/** Edits that the server has not confirmed, by document. One request is on its way at a time; the next one has all edits that
 * came meanwhile. A request that is lost is sent again, and each edit is applied once. @type {Map<string, EditQueue>} */
const queues = new Map();

let last = "",
  lastTime = 0;

/** @param {string} document */
function queueOf(document) {
  const queue = queues.get(document) ?? { waiting: [], sending: null, retryAfter: FIRST_RETRY, retry: 0, seen: 0 };
  queues.set(document, queue);
  return queue;
}

/* The second tap of a double click paints what the first one painted; it must not be another step of the history. */
/** @param {Edit} what */
function repeats(what) {
  const text = JSON.stringify(what),
    again = what.do === "paint" && text === last && Date.now() - lastTime < DOUBLE_CLICK;
  last = text;
  lastTime = Date.now();
  return again;
}

/** @type {Hetero["edit"]} */
function edit(what, then) {
  if (!page.view) return;
  if (what.do !== "show") editor.keepOpen();
  if (repeats(what)) return;
  page.sequence += 1;
  editor.hold();
  const { document } = page.view;
  queueOf(document).waiting.push({ edit: { ...what, sequence: page.sequence }, then });
  send(document);
}

/** @param {string} document */
async function send(document) {
  const queue = queueOf(document);
  clearTimeout(queue.retry);
  if (queue.sending || !queue.waiting.length) return;
  if (page.view.document === document) queue.seen = page.view.version;
  const sent = [...queue.waiting],
    sending = new AbortController();
  queue.sending = sending;
  try {
    const body = { page: `${PAGE_ID} ${document}`, seen: queue.seen, edits: sent.map((each) => each.edit) };
    const answer = await editor.ask("edits", body, { document, signal: sending.signal });
    if (queue.sending !== sending) return; // what was asked once more brings the answer
    queue.sending = null;
    queue.retryAfter = FIRST_RETRY;
    queue.seen = answer.view.version;
    queue.waiting = queue.waiting.filter((each) => each.edit.sequence > answer.sequence);
    editor.showUnstored("");
    if (page.view.document === document) show(answer, sent, !queue.waiting.length);
    for (const each of sent) if (each.edit.sequence <= answer.sequence) each.then?.();
    send(document);
  } catch (error) {
    if (queue.sending !== sending) return;
    queue.sending = null;
    refused(document, sent, /** @type {Error & { status?: number }} */ (error));
  }
}

/**
 * Edits that the server does not take are told and dropped; all others wait: where they could not be stored, came too slowly,
 * or the server was started again and wants its new address.
 * @param {string} document
 * @param {Waiting[]} sent
 * @param {Error & { status?: number }} error
 */
function refused(document, sent, error) {
  const queue = queueOf(document);
  if (REFUSED.has(error.status ?? 0)) {
    queue.waiting = queue.waiting.filter((each) => !sent.includes(each));
    editor.complain(error);
    if (page.cy) editor.colour(page.cy, page.view);
    return;
  }
  if (error.status) editor.showUnstored(error.message);
  queue.retry = window.setTimeout(() => send(document), queue.retryAfter);
  queue.retryAfter = Math.min(2 * queue.retryAfter, LAST_RETRY);
}

/* What the server says of a plan, and of the edits that made it. */
/** @param {Messages.EditsAnswer} answer @param {Waiting[]} sent @param {boolean} all whether no edit waits */
function show(answer, sent, all) {
  editor.apply(answer.view);
  const { notice, ...panels } = answer.panels;
  for (const [id, children] of Object.entries(panels)) editor.set(id, { children });
  if (notice || sent.some((each) => each.edit.do !== "show")) editor.set("notice", { children: notice });
  if (answer.selection) editor.choose(answer.selection);
  if (all) showAutomatic(answer.view);
  editor.planChanged();
}

/* The panels follow the plan; so do the ribbon, and the graph where it shows subgraphs. */
function planChanged() {
  const { document, version, step } = page.view;
  editor.set("plan", { data: { document, version, step } });
  editor.ask("ribbon").then(editor.showRibbon, editor.complain);
  if (page.detail?.mode === "subgraphs") editor.askDetail(null);
}

const waitingEdits = () => (page.view ? queueOf(page.view.document).waiting.length : 0);

function resend() {
  for (const [document, queue] of queues) {
    queue.sending?.abort();
    queue.sending = null;
    queue.retryAfter = FIRST_RETRY;
    send(document);
  }
}

/* The graph shows again what the server has confirmed. */
function dropWaiting() {
  const queue = queueOf(page.view.document);
  queue.sending?.abort();
  queue.sending = null;
  queue.waiting = [];
  clearTimeout(queue.retry);
  if (page.cy && page.view) editor.colour(page.cy, page.view);
  if (editor.reachable()) edit({ do: "show" });
}

/** The automatic mode that the lists had last: the server's, or a later choice of the person. */
let asked = /** @type {ReturnType<typeof automaticOf> | null} */ (null);

/** @param {Messages.View} view */
const automaticOf = ({ document, policy, grouping, costs, codegen }) => ({ document, policy, grouping, costs, codegen });

/** The lists show what the server has, unless a choice that is newer than its answer waits. @param {Messages.View} view */
function showAutomatic(view) {
  asked = automaticOf(view);
  for (const list of /** @type {const} */ (["policy", "grouping", "costs", "codegen"])) editor.set(list, { value: view[list] });
}

/**
 * A change of the automatic mode is an edit; an answer of the server that sets the lists is not.
 * @param {string} policy
 * @param {string} grouping
 * @param {string} costs
 * @param {string} codegen
 */
function setAutomatic(policy, grouping, costs, codegen) {
  if (!page.view) return;
  const { document } = page.view,
    was = asked?.document === document ? asked : automaticOf(page.view),
    wanted = { document, policy, grouping, costs, codegen };
  if (JSON.stringify(wanted) === JSON.stringify(was)) return;
  asked = wanted;
  edit({ do: "automatic", policy, grouping, costs, codegen });
}

const painting = () => page.brush !== "select";
const device = () => (/^\d+$/.test(page.brush) ? Number(page.brush) : null);
const unpin = () => page.brush === "unpin";

/** @type {Hetero["paint"]} */
function paint(ops, target, force) {
  if (target === null || !page.view) return;
  if (!ops.length) {
    say("Select something first.");
    return;
  }
  const look = page.view.devices[target];
  if (page.cy && look) {
    const wanted = new Set(ops),
      nodes = editor.nodesOf(ops).filter((node) => editor.opsOf(node).every((op) => wanted.has(op)));
    page.cy.batch(() => nodes.removeClass("mixed").data({ fill: look.fill, ink: look.ink }));
  }
  edit({ do: "paint", ops: ops, device: target, force: Boolean(force) });
}

/** @type {Hetero["paintOrUnpin"]} */
function paintOrUnpin(ops) {
  if (page.brush === "unpin") edit({ do: "unpin", ops: ops });
  else paint(ops, device());
}

const unmarkFirst = () => page.cy?.elements(".mark").removeClass("mark");

/** @type {Hetero["tapOp"]} */
function tapOp(node) {
  editor.keepOpen();
  const ops = editor.opsOf(node),
    op = ops[0];
  if (page.region === "region") edit({ do: "region", ops: [op], device: device(), unpin: unpin() });
  else if (page.region === "between") {
    const { first } = page;
    if (first) edit({ do: "between", first, ops, device: device(), unpin: unpin() });
    unmarkFirst();
    if (!first) node.addClass("mark");
    page.first = first ? null : ops;
    showMode();
  } else if (painting()) paintOrUnpin(ops);
}

/** The title of a frame stands for its block; the rest of it is ground. @type {Hetero["tapFrame"]} */
function tapFrame(event) {
  const frame = event.target,
    top = frame.position("y") - frame.data("h") / 2;
  page.cy?.elements(":selected").unselect();
  if (painting() && !page.region && event.position.y < top + TITLE) paintOrUnpin(editor.opsOf(frame));
}

function endBox() {
  page.boxing = false;
  const ops = editor.selectedOps();
  if (painting() && ops.length) paintOrUnpin(ops);
  editor.reportSelection();
}

/** A message over the graph, for a moment. @type {Hetero["say"]} */
function say(text) {
  const hint = editor.byId("mode-hint");
  if (!hint) return;
  hint.textContent = text;
  hint.classList.add("shown");
  page.messageUntil = Date.now() + 2200;
  setTimeout(showMode, 2210);
}

/** Grows the selection, and paints nothing: with a brush in hand, Space paints what is selected then. @type {Hetero["grow"]} */
function grow(how) {
  const ops = editor.selectedOps();
  if (!ops.length) {
    say("Select an op first, then choose what to grow it to.");
    return;
  }
  edit({ do: "grow", how: how, ops: ops, device: null, unpin: false });
}

/** @type {Hetero["setBrush"]} */
function setBrush(name) {
  if (name !== page.brush) editor.closeNotice(); // what was refused to the former brush is not wanted any more
  page.brush = name;
  toolChanged();
}

/** @type {Hetero["setRegion"]} */
function setRegion(name) {
  page.region = page.region === name ? null : name;
  unmarkFirst();
  toolChanged();
}

function toolChanged() {
  page.first = null;
  page.messageUntil = 0;
  showMode();
}

/** @param {"brush" | "region"} kind @param {string} name */
function press(kind, name) {
  for (const button of editor.all(`button[data-${kind}]`)) button.ariaPressed = String(button.dataset[kind] === name);
}

function showMode() {
  document.body.dataset.brush = page.brush;
  document.body.dataset.region = page.region || "";
  press("brush", page.brush);
  press("region", page.region || "");
  const hint = editor.byId("mode-hint");
  if (!hint || Date.now() < page.messageUntil) return;
  const look = page.view?.devices[device() ?? -1];
  const act = page.brush === "unpin" ? "unpin" : look ? `paint with ${look.name}` : "select";
  let text = "";
  if (page.region === "region") text = `Click an op to ${act} all connected ops of its colour.`;
  else if (page.region === "between" && !page.first) text = "Click the first op of the region.";
  else if (page.region === "between") text = `Click the last op to ${act} everything between.`;
  else if (page.brush === "unpin") text = "Click ops, or shift-drag a box, to unpin.";
  else if (look) text = `Painting with ${look.name}: click ops, or shift-drag a box.`;
  if (text && painting() && !page.region && editor.selectedOps().length)
    text += ` Space ${look ? "paints" : "unpins"} the selection.`;
  hint.textContent = text && `${text}  Esc ends.`;
  hint.style.setProperty("--fill", look ? look.fill : "transparent");
  hint.classList.toggle("shown", Boolean(text));
}

editor.provide({ waitingEdits, planChanged, resend, dropWaiting, say, painting, device, edit, paint, paintOrUnpin });
editor.provide({ tapOp, tapFrame, endBox, grow, setBrush, setRegion, showMode });
editor.callbacks({
  setAutomatic,
  /* A list that is drawn anew has no tool marked. */
  devicesArrived: () => {
    setTimeout(showMode, 0);
  },
});
