/* Keys and buttons. */
((editor) => {
  "use strict";

  const page = editor.page;

  function unpinSelected() {
    const ops = editor.selectedOps();
    if (ops.length) editor.stroke({ do: "unpin", ops: ops });
    else editor.say("Select something first.");
  }

  function toggleHelp() {
    const sheet = editor.byId("help");
    if (sheet) sheet.hidden = !sheet.hidden;
  }

  document.addEventListener("keydown", (event) => {
    if (event.target.id === "find" && event.key === "Enter") {
      editor.find(event.target.value, page.lastFind === event.target.value);
      page.lastFind = event.target.value;
      return;
    }
    const field = event.target.closest?.("input, textarea, select, [contenteditable=true]");
    const typing = field && !(field.readOnly && field.getAttribute("aria-expanded") !== "true") ? field : null;
    if (!editor.byId("editor") || typing) {
      if (event.key === "Escape" && typing) event.target.blur();
      return;
    }
    const key = event.key.toLowerCase();
    if (event.ctrlKey || event.metaKey) {
      if (key === "z") {
        editor.stroke({ do: event.shiftKey ? "redo" : "undo" });
        event.preventDefault();
      } else if (key === "y") {
        editor.stroke({ do: "redo" });
        event.preventDefault();
      }
      return;
    }
    if (event.altKey) return;
    if (/^[1-9]$/.test(key)) {
      if (page.view && Number(key) <= page.view.devices.length) editor.setBrush(String(Number(key) - 1));
    } else if (key === "v") editor.setBrush("select");
    else if (key === "u") editor.setBrush("unpin");
    else if (key === "r") editor.setRegion("region");
    else if (key === "b") editor.setRegion("between");
    else if (key === "escape" && editor.closePanes()) return;
    else if (key === "escape" && document.querySelector(".mantine-Menu-dropdown"))
      return; // the menu closes
    else if (key === "escape") {
      editor.byId("help").hidden = true;
      page.region = null;
      editor.setBrush("select");
      editor.unmark();
      editor.selectNothing();
    } else if (key === "?" || key === "h") toggleHelp();
    else if (GROW[key]) editor.grow(GROW[key]);
    else if (key === "m") editor.toggleMap();
    else if (key === "e" && event.shiftKey) editor.askDetail({ do: "level", deeper: true });
    else if (key === "c" && event.shiftKey) editor.askDetail({ do: "level", deeper: false });
    else if (key === "e" || key === "enter") editor.openByKey();
    else if (key === "c") editor.close(page.cy ? page.cy.nodes(".op:selected").toArray() : []);
    else if (key === "f") editor.fit();
    else if (key === "z") editor.zoomToSelection();
    else if (key === "+" || key === "=") editor.zoom(1.3);
    else if (key === "-") editor.zoom(1 / 1.3);
    else if (key === "/") {
      editor.byId("find").focus();
      event.preventDefault();
    } else if (key === "delete") unpinSelected();
  });

  const GROW = { t: "type", l: "twins", s: "subgraph", a: "before", d: "after", n: "near", k: "block" };

  /* After the mouse has chosen from a list over the graph, the keys belong to the graph again. */
  document.addEventListener("click", (event) => {
    const option = event.detail && event.target.closest("[role=option]");
    if (option)
      setTimeout(() => {
        const list = document.activeElement;
        if (list && ["detail-mode", "colour-by"].includes(list.id)) list.blur();
      }, 0);
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const data = button.dataset;
    if (data.brush !== undefined) editor.setBrush(data.brush);
    else if (data.region !== undefined) editor.setRegion(data.region);
    else if (data.raise !== undefined) editor.stroke({ do: "raise", device: Number(data.raise) });
    else if (data.paint !== undefined) editor.paint(editor.selectedOps(), Number(data.paint));
    else if (data.force !== undefined) {
      editor.paint(data.force.split(",").map(Number), Number(data.device), true);
      closeNotice();
    } else if (data.goto !== undefined) editor.goTo(data.goto);
    else if (data.part !== undefined) editor.showPart(Number(data.part));
    else if (data.rules !== undefined) editor.rulesButton(data.rules, button);
    else if (data.ruleOps !== undefined) editor.ruleOps(button);
    else if (data.copy !== undefined) editor.copy(data.copy);
    else if (data.copyLink !== undefined) editor.copyLink();
    else if (data.picture !== undefined) editor.picture(data.picture);
    else if (data.label !== undefined) editor.stroke({ do: "label", ops: editor.selectedOps(), label: data.label });
    else if (button.id === "palette-open") editor.openPalette();
    else if (data.pane !== undefined) editor.tickPane(button);
    else if (button.id === "panes-open") editor.openPanes("panes-ask");
    else if (button.id === "panes-attach") editor.openPanes("panes-page");
    else if (button.closest("#panes")) editor.panesButton(data, button);
    else if (data.layoutUse !== undefined) editor.stroke({ do: "use-layout", name: data.layoutUse });
    else if (data.layoutShow !== undefined) editor.stroke({ do: "show-layout", name: data.layoutShow });
    else if (data.hint !== undefined) {
      editor.paint(data.hint.split(",").map(Number), Number(data.device));
      button.disabled = true;
    } else if (data.adopt !== undefined) editor.stroke({ do: "adopt", name: data.adopt });
    else if (data.do === "unpin") unpinSelected();
    else if (data.do === "reset") editor.stroke({ do: "reset" });
    else if (data.do === "close") closeNotice();
    else if (button.id === "undo" || button.id === "redo") editor.stroke({ do: button.id });
    else if (data.grow !== undefined) editor.grow(data.grow);
    else if (data.step !== undefined) {
      editor.stroke({ do: "step", step: Number(data.step) });
    } else if (button.id === "map-toggle") editor.toggleMap();
    else if (button.id === "help-open" || data.do === "help") toggleHelp();
    else if (button.id === "zoom-in") editor.zoom(1.3);
    else if (button.id === "zoom-out") editor.zoom(1 / 1.3);
    else if (button.id === "zoom-fit") editor.fit();
  });

  const closeNotice = () => editor.set("notice", { children: null });

  Object.assign(editor, { toggleHelp });
})(window.hetero);
