/* How much is drawn: blocks that open and close. */

/* Requests follow each other: each begins with what the one before has drawn. */
let before = Promise.resolve(),
  knownOf = /** @type {HTMLElement | null} */ (null);
/** What the server was last asked to draw. @type {Messages.DetailShown | null} */
let known = null;

const shown = () => (knownOf === page.editor && known) || page.detail;

/** @type {Hetero["askDetail"]} */
function askDetail(what) {
  if (what && what.do !== "reveal") page.shown = { blocks: [], before: null };
  if (what?.do === "level" || what?.do === "restore")
    page.fitNext = true; // another picture altogether
  else editor.hold();
  before = before.then(() => change(what)).catch(editor.complain);
}

/** @param {DrawingChange | null} what */
async function change(what) {
  const { document } = page.view,
    now = shown();
  if (!now) return;
  const { detail, elements, selection } = await editor.ask("drawing", { detail: now, change: what }, { document });
  if (page.view.document !== document) return;
  known = detail;
  knownOf = page.editor;
  if (elements) {
    editor.set("detail", { data: detail });
    editor.set("graph", { elements });
  }
  if (what?.do === "mode" || now.mode !== detail.mode) editor.set("detail-mode", { value: detail.mode });
  if (selection) editor.set("selection", { data: selection });
}

/* Goes to an op in closed blocks. Those that were opened for the last one close: stepping through a model would open all. */
/** @type {Hetero["reveal"]} */
function reveal(op) {
  const { blocks } = page.shown;
  page.shown.before = (page.detail?.open ?? []).filter((number) => !blocks.includes(number));
  askDetail({ do: "reveal", op, close: blocks });
}

/* What was opened to show an op stays open once a person does something there. */
function keepOpen() {
  page.shown = { blocks: [], before: null };
}

/** @param {Messages.DetailShown["mode"]} mode @param {Messages.DetailShown} detail */
function detailMode(mode, detail) {
  if (detail && mode !== shown()?.mode) askDetail({ do: "mode", mode });
}

/** @param {CyNode[]} nodes */
function open(nodes) {
  const units = nodes.map((n) => n.data("unit")).filter((u) => u !== undefined);
  if (!units.length || page.detail?.mode !== "blocks") return;
  page.keep = { ops: new Set(nodes.flatMap(editor.opsOf)), at: nodes[0].renderedPosition() };
  askDetail({ do: "open", units: units });
}

/* With a brush in hand clicks paint, double clicks too: the block under the pointer is opened by key then. */
/** @param {CyNode} node */
function openTapped(node) {
  if (editor.painting() || page.region) editor.say("Clicks paint now; E opens the block under the pointer.");
  else open([node]);
}

function openByKey() {
  const chosen = page.cy ? page.cy.nodes(".group:selected").toArray() : [],
    under = page.under;
  const pointed = under?.inside() && under.hasClass("group") ? [under] : [];
  const holder = page.cy?.nodes(".holder:selected")[0] || (under?.inside() && under.hasClass("holder") ? under : null);
  if (holder && !pointed.length) editor.openBody(holder.data("body"));
  else open(chosen.length && !editor.painting() ? chosen : pointed.length ? pointed : chosen);
}

/** @type {Hetero["close"]} */
function close(nodes) {
  if (!nodes.length || page.detail?.mode !== "blocks") return;
  page.keep = { ops: new Set(editor.opsOf(nodes[0])), at: nodes[0].renderedPosition() };
  askDetail({ do: "close", ops: nodes.map((n) => editor.opsOf(n)[0]) });
}

/** An open block is closed from its frame as it was opened: by a double click. @param {CyNode} frame */
function closeFrame(frame) {
  page.keep = { ops: new Set([frame.data("op")]), at: frame.renderedPosition() };
  askDetail({ do: "close", scope: frame.data("scope"), ops: [frame.data("op")] });
}

editor.provide({ askDetail, reveal, keepOpen, openTapped, openByKey, close, closeFrame });
editor.callbacks({ detailMode });
