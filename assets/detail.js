/* How much is drawn: blocks that open and close. */
((editor) => {
  "use strict";

  const page = editor.page;

  /** @type {Hetero["askDetail"]} */
  function askDetail(what) {
    page.sequence += 1;
    if (what.do !== "reveal") page.shown = { blocks: [], before: null };
    if (what.do === "level" || what.do === "restore")
      page.fitNext = true; // another picture altogether
    else editor.hold();
    editor.set("detail-request", { data: { ...what, sequence: page.sequence } });
  }

  /* Goes to an op in closed blocks. Those that were opened for the last one close: stepping through a model would open all. */
  /** @type {Hetero["reveal"]} */
  function reveal(op) {
    const { blocks } = page.shown;
    page.shown.before = (page.detail?.open ?? []).filter((number) => !blocks.includes(number));
    askDetail({ do: "reveal", op, close: blocks });
  }

  /* What was opened to show an op stays open once a person does something there. */
  /** @type {Hetero["keepOpen"]} */
  function keepOpen() {
    page.shown = { blocks: [], before: null };
  }

  /**
   * @param {string} mode
   * @param {Messages.Detail} detail
   */
  function detailMode(mode, detail) {
    if (!detail || mode === detail.mode) return window.dash_clientside.no_update;
    page.sequence += 1;
    return { do: "mode", mode: mode, sequence: page.sequence };
  }

  /** @param {CyNode[]} nodes */
  function open(nodes) {
    const units = nodes.map((n) => n.data("unit")).filter((u) => u !== undefined);
    if (!units.length || !page.detail || page.detail.mode !== "blocks") return;
    page.keep = { ops: new Set(nodes.flatMap(editor.opsOf)), at: nodes[0].renderedPosition() };
    askDetail({ do: "open", units: units });
  }

  /* With a brush in hand clicks paint, double clicks too: the block under the pointer is opened by key then. */
  /** @param {CyNode} node */
  function openTapped(node) {
    if (editor.painting() || page.region) editor.say("Clicks paint now; E opens the block under the pointer.");
    else open([node]);
  }

  /** @type {Hetero["openByKey"]} */
  function openByKey() {
    const chosen = page.cy ? page.cy.nodes(".group:selected").toArray() : [],
      under = page.under;
    const pointed = under?.inside() && under.hasClass("group") ? [under] : [];
    open(chosen.length && !editor.painting() ? chosen : pointed.length ? pointed : chosen);
  }

  /** @type {Hetero["close"]} */
  function close(nodes) {
    if (!nodes.length || !page.detail || page.detail.mode !== "blocks") return;
    page.keep = { ops: new Set(editor.opsOf(nodes[0])), at: nodes[0].renderedPosition() };
    askDetail({ do: "close", ops: nodes.map((n) => editor.opsOf(n)[0]) });
  }

  /* An open block is closed from its frame as it was opened: by a double click. */
  /** @param {CyNode} frame */
  function closeFrame(frame) {
    page.keep = { ops: new Set([frame.data("op")]), at: frame.renderedPosition() };
    askDetail({ do: "close", scope: frame.data("scope"), ops: [frame.data("op")] });
  }

  editor.provide({ askDetail, reveal, keepOpen, openTapped, openByKey, close, closeFrame });
  editor.callbacks({ detailMode });
})(window.hetero);
