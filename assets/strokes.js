/* Brushes and what they ask of the server. */
((editor) => {
  "use strict";

  const page = editor.page;

  /* A change of the automatic mode is a stroke; an answer of the server that sets the lists is not. */
  function automatic(policy, grouping, costs, codegen) {
    const view = page.view;
    if (!view || (policy === view.policy && grouping === view.grouping && costs === view.costs && codegen === view.codegen))
      return window.dash_clientside.no_update;
    page.sequence += 1;
    return { do: "automatic", policy: policy, grouping: grouping, costs: costs, codegen: codegen, sequence: page.sequence };
  }

  const painting = () => page.brush !== "select";
  const device = () => (/^\d+$/.test(page.brush) ? Number(page.brush) : null);

  function stroke(what) {
    page.sequence += 1;
    editor.hold();
    editor.set("stroke", { data: { ...what, sequence: page.sequence } });
  }

  function paint(ops, target, force) {
    if (target === null) return;
    if (!ops.length) {
      say("Select something first.");
      return;
    }
    const look = page.view.devices[target];
    if (page.cy && look) {
      const wanted = new Set(ops);
      page.cy.batch(() =>
        editor.nodesOf(ops).forEach((node) => {
          if (!editor.opsOf(node).every((op) => wanted.has(op))) return;
          node.data({ fill: look.fill, ink: look.ink });
          node.removeClass("mixed");
        }),
      );
    }
    stroke({ do: "paint", ops: ops, device: target, force: Boolean(force) });
  }

  function paintOrUnpin(ops) {
    if (page.brush === "unpin") stroke({ do: "unpin", ops: ops });
    else paint(ops, device());
  }

  function tapOp(node) {
    const ops = editor.opsOf(node),
      op = ops[0];
    if (page.region === "region") {
      stroke({ do: "region", ops: [op], device: device(), unpin: page.brush === "unpin" });
    } else if (page.region === "between") {
      if (page.first === null) {
        page.first = ops;
        page.cy.elements(".mark").removeClass("mark");
        node.addClass("mark");
        showMode();
        return;
      }
      stroke({ do: "between", from: page.first, ops: ops, device: device(), unpin: page.brush === "unpin" });
      page.cy.elements(".mark").removeClass("mark");
      page.first = null;
      showMode();
    } else if (painting()) {
      paintOrUnpin(ops);
    }
  }

  function endBox() {
    page.boxing = false;
    const ops = editor.selectedOps();
    if (painting() && ops.length) {
      page.cy.elements(":selected").unselect();
      paintOrUnpin(ops);
    } else {
      editor.reportSelection();
    }
  }

  /* A word over the graph, for a moment. */
  function say(text) {
    const hint = editor.byId("mode-hint");
    hint.textContent = text;
    hint.classList.add("shown");
    page.saidUntil = Date.now() + 2200;
    setTimeout(showMode, 2210);
  }

  /* Grows the selection; with a brush in hand, what it grows to is painted. */
  function grow(how) {
    const ops = editor.selectedOps();
    if (!ops.length) {
      editor.set("notice", { children: null });
      say("Select an op first, then choose what to grow it to.");
      return;
    }
    stroke({ do: "grow", how: how, ops: ops, device: device(), unpin: page.brush === "unpin" });
  }

  function setBrush(name) {
    page.brush = name;
    page.first = null;
    page.saidUntil = 0;
    showMode();
  }

  function setRegion(name) {
    page.region = page.region === name ? null : name;
    page.first = null;
    page.saidUntil = 0;
    if (page.cy) page.cy.elements(".mark").removeClass("mark");
    showMode();
  }

  function showMode() {
    document.body.dataset.brush = page.brush;
    document.body.dataset.region = page.region || "";
    document.querySelectorAll("[data-brush]").forEach((b) => {
      if (b !== document.body) b.setAttribute("aria-pressed", String(b.dataset.brush === page.brush));
    });
    document.querySelectorAll("[data-region]").forEach((b) => {
      if (b !== document.body) b.setAttribute("aria-pressed", String(b.dataset.region === page.region));
    });
    const hint = editor.byId("mode-hint");
    if (!hint || Date.now() < page.saidUntil) return;
    const look = page.view && device() !== null ? page.view.devices[device()] : null;
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

  Object.assign(editor, {
    say,
    painting,
    device,
    stroke,
    paint,
    paintOrUnpin,
    tapOp,
    endBox,
    grow,
    setBrush,
    setRegion,
    showMode,
  });
  editor.callbacks({ automatic });
})(window.hetero);
