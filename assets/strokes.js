/* Brushes and what they ask of the server. */
((editor) => {
  "use strict";

  const page = editor.page;
  const PAGE_ID = Math.random().toString(36).slice(2) + Date.now().toString(36);
  const FIRST_RETRY = 5000,
    LAST_RETRY = 60000,
    DOUBLE_CLICK = 500,
    TITLE = 24; // height of a frame's title

  /* Strokes that the server has not confirmed: all are sent with each new one, so that a request that is lost or overtaken
     loses nothing, and once more when no answer comes. */
  /** @type {Messages.Stroke[]} */
  let pending = [];
  let pendingOf = "",
    retryAfter = FIRST_RETRY,
    retry = 0;

  let last = "",
    lastTime = 0;

  /* The second tap of a double click paints what the first one painted; it must not be another step of the history. */
  /** @param {Messages.Stroke} what */
  function repeats(what) {
    const text = JSON.stringify(what),
      again = what.do === "paint" && text === last && Date.now() - lastTime < DOUBLE_CLICK;
    last = text;
    lastTime = Date.now();
    return again;
  }

  /** @type {Hetero["stroke"]} */
  function stroke(what) {
    if (what.do !== "show") editor.keepOpen();
    if (repeats(what)) return;
    page.sequence += 1;
    editor.hold();
    const document = page.view ? page.view.document : "";
    if (pendingOf !== document) pending = [];
    pendingOf = document;
    pending.push({ ...what, sequence: page.sequence });
    retryAfter = FIRST_RETRY;
    send();
  }

  function send() {
    clearTimeout(retry);
    if (editor.reachable())
      editor.set("strokes", { data: { page: PAGE_ID, seen: page.view?.version ?? 0, strokes: [...pending] } });
    retry = setTimeout(() => {
      retryAfter = Math.min(2 * retryAfter, LAST_RETRY);
      if (pending.length && page.view?.document === pendingOf) send();
    }, retryAfter);
  }

  /**
   * @param {Messages.Confirmed | null} confirmed
   * @param {Messages.View | null} view
   */
  function strokesConfirmed(confirmed, view) {
    if (confirmed?.page === PAGE_ID) {
      pending = pending.filter((each) => (each.sequence || 0) > confirmed.sequence);
      editor.showUnstored(confirmed.problem);
      if (view && !confirmed.problem && !pending.length) showAutomatic(view);
    }
    if (!pending.length) clearTimeout(retry);
    return window.dash_clientside.no_update;
  }

  /** @type {Hetero["waitingStrokes"]} */
  const waitingStrokes = () => (page.view?.document === pendingOf ? pending.length : 0);

  /** @type {Hetero["resend"]} */
  function resend() {
    retryAfter = FIRST_RETRY;
    if (waitingStrokes()) send();
  }

  /* The graph shows again what the server has confirmed. */
  /** @type {Hetero["dropWaiting"]} */
  function dropWaiting() {
    pending = [];
    clearTimeout(retry);
    if (page.cy && page.view) editor.colour(page.cy, page.view);
    if (editor.reachable()) stroke({ do: "show" });
  }

  /**
   * What the server wants to be done, e.g. the rules of a file: through here, so that it is in order with the strokes.
   * @param {Messages.Stroke | null} what
   */
  function strokeFromServer(what) {
    if (what) {
      stroke(what);
      setTimeout(() => editor.set("next-stroke", { data: null }), 0); // the same once more is another stroke
    }
    return window.dash_clientside.no_update;
  }

  /** @type {{ document: string, policy: string, grouping: string, costs: string, codegen: string } | null} */
  let asked = null; // the automatic mode that the lists had last: the server's, or a later choice of the person

  /**
   * The lists show what the server has, unless a choice that is newer than its answer waits. The server's callback does not
   * set them: Dash would keep a choice back until that callback is done, and then replace it.
   * @param {Messages.View} view
   */
  function showAutomatic(view) {
    asked = { document: view.document, policy: view.policy, grouping: view.grouping, costs: view.costs, codegen: view.codegen };
    for (const list of /** @type {const} */ (["policy", "grouping", "costs", "codegen"]))
      editor.set(list, { value: view[list] });
  }

  /**
   * A change of the automatic mode is a stroke; an answer of the server that sets the lists is not.
   * @param {string} policy
   * @param {string} grouping
   * @param {string} costs
   * @param {string} codegen
   */
  function setAutomatic(policy, grouping, costs, codegen) {
    const view = page.view;
    const was = view && asked?.document === view.document ? asked : view;
    const same = !was || (policy === was.policy && grouping === was.grouping && costs === was.costs && codegen === was.codegen);
    if (view && !same) {
      asked = { document: view.document, policy, grouping, costs, codegen };
      stroke({ do: "automatic", policy, grouping, costs, codegen });
    }
    return window.dash_clientside.no_update;
  }

  /** @type {Hetero["painting"]} */
  const painting = () => page.brush !== "select";
  /** @type {Hetero["device"]} */
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
      const wanted = new Set(ops);
      const cy = page.cy;
      cy.batch(() =>
        editor.nodesOf(ops).forEach((node) => {
          if (!editor.opsOf(node).every((op) => wanted.has(op))) return;
          node.data({ fill: look.fill, ink: look.ink });
          node.removeClass("mixed");
        }),
      );
    }
    stroke({ do: "paint", ops: ops, device: target, force: Boolean(force) });
  }

  /** @type {Hetero["paintOrUnpin"]} */
  function paintOrUnpin(ops) {
    if (page.brush === "unpin") stroke({ do: "unpin", ops: ops });
    else paint(ops, device());
  }

  const unmarkFirst = () => page.cy?.elements(".mark").removeClass("mark");

  /** @type {Hetero["tapOp"]} */
  function tapOp(node) {
    editor.keepOpen();
    const ops = editor.opsOf(node),
      op = ops[0];
    if (page.region === "region") {
      stroke({ do: "region", ops: [op], device: device(), unpin: unpin() });
    } else if (page.region === "between") {
      if (page.first === null) {
        page.first = ops;
        unmarkFirst();
        node.addClass("mark");
        showMode();
        return;
      }
      stroke({ do: "between", first: page.first, ops: ops, device: device(), unpin: unpin() });
      unmarkFirst();
      page.first = null;
      showMode();
    } else if (painting()) {
      paintOrUnpin(ops);
    }
  }

  /* The title of a frame stands for its block; the rest of it is ground. */
  /** @type {Hetero["tapFrame"]} */
  function tapFrame(event) {
    const frame = event.target,
      top = frame.position("y") - frame.data("h") / 2;
    page.cy?.elements(":selected").unselect();
    if (painting() && !page.region && event.position.y < top + TITLE) paintOrUnpin(editor.opsOf(frame));
  }

  /** @type {Hetero["endBox"]} */
  function endBox() {
    page.boxing = false;
    const ops = editor.selectedOps();
    if (painting() && ops.length) {
      page.cy?.elements(":selected").unselect();
      paintOrUnpin(ops);
    } else {
      editor.reportSelection();
    }
  }

  /* A message over the graph, for a moment. */
  /** @type {Hetero["say"]} */
  function say(text) {
    const hint = editor.byId("mode-hint");
    if (!hint) return;
    hint.textContent = text;
    hint.classList.add("shown");
    page.messageUntil = Date.now() + 2200;
    setTimeout(showMode, 2210);
  }

  /* Grows the selection; with a brush in hand, what it grows to is painted. */
  /** @type {Hetero["grow"]} */
  function grow(how) {
    const ops = editor.selectedOps();
    if (!ops.length) {
      say("Select an op first, then choose what to grow it to.");
      return;
    }
    stroke({ do: "grow", how: how, ops: ops, device: device(), unpin: unpin() });
  }

  /** @type {Hetero["setBrush"]} */
  function setBrush(name) {
    if (name !== page.brush) editor.closeNotice(); // what was refused to the former brush is not wanted any more
    page.brush = name;
    page.first = null;
    page.messageUntil = 0;
    showMode();
  }

  /** @type {Hetero["setRegion"]} */
  function setRegion(name) {
    page.region = page.region === name ? null : name;
    page.first = null;
    page.messageUntil = 0;
    unmarkFirst();
    showMode();
  }

  /**
   * @param {"brush" | "region"} kind
   * @param {string} name
   */
  function press(kind, name) {
    /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(`button[data-${kind}]`)).forEach((button) =>
      button.setAttribute("aria-pressed", String(button.dataset[kind] === name)),
    );
  }

  /** @type {Hetero["showMode"]} */
  function showMode() {
    document.body.dataset.brush = page.brush;
    document.body.dataset.region = page.region || "";
    press("brush", page.brush);
    press("region", page.region || "");
    const hint = editor.byId("mode-hint");
    if (!hint || Date.now() < page.messageUntil) return;
    const brush = device(),
      look = page.view && brush !== null ? page.view.devices[brush] : null;
    const act = page.brush === "unpin" ? "unpin" : look ? `paint with ${look.name}` : "select";
    let text = "";
    if (page.region === "region") text = `Click an op to ${act} all connected ops of its colour.`;
    else if (page.region === "between" && page.first === null) text = "Click the first op of the region.";
    else if (page.region === "between") text = `Click the last op to ${act} everything between.`;
    else if (page.brush === "unpin") text = "Click ops, or shift-drag a box, to unpin.";
    else if (look) text = `Painting with ${look.name}: click ops, or shift-drag a box.`;
    hint.textContent = text && `${text}  Esc ends.`;
    hint.style.setProperty("--fill", look ? look.fill : "transparent");
    hint.classList.toggle("shown", Boolean(text));
  }

  editor.provide({
    waitingStrokes,
    resend,
    dropWaiting,
    say,
    painting,
    device,
    stroke,
    paint,
    paintOrUnpin,
    tapOp,
    tapFrame,
    endBox,
    grow,
    setBrush,
    setRegion,
    showMode,
  });
  editor.callbacks({ setAutomatic, strokeFromServer, strokesConfirmed });
})(window.hetero);
