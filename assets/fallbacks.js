/* Buttons in the table of fallbacks. */

/**
 * The list of a device that keeps ops from it: the allow-list where that has some, else the block-list.
 * @param {number} device
 */
function showLists(device, tries = 20) {
  const lists = ["supportedNodes", "nonSupportedNodes"].map((field) =>
    editor.byId(JSON.stringify({ field, index: device, type: "device-field" })),
  );
  const list = lists.find((each) => each?.parentElement?.querySelector("button")) ?? lists[1]; // with an op that can be taken out
  if (!list?.checkVisibility()) {
    if (tries) setTimeout(showLists, 50, device, tries - 1);
    return;
  }
  list.scrollIntoView({ block: "center" });
  list.focus();
}

/** @type {Hetero["fallback"]} */
function fallback(what, value) {
  if (what === "rule") {
    const [types, device] = value.split("|"),
      rules = page.view ? page.view.rules.rules.map(({ count, ...rule }) => rule) : [];
    editor.edit({ do: "rules", rules: [...rules, ...types.split(",").map((type) => ({ type, to: device }))] });
    editor.say(`A rule sends all ${types.replaceAll(",", ", ")} to ${device}. It is in the tab Rules.`);
    return;
  }
  if (what === "assume") {
    const [device, name, type] = value.split("|");
    editor.edit({ do: "device-field", name, device: Number(device), field: "assumes", value: type });
    editor.say(`${name} is planned as ${type}. Precision, in the tab Devices, takes it back.`);
    return;
  }
  if (what === "lists") {
    editor.commandOf("show-devices")?.run?.();
    showLists(Number(value));
    return;
  }
  const ops = value.split(",").map(Number);
  /** @type {HTMLElement | null} */ (document.activeElement)?.blur(); // the next key is for the ops, not for this button
  if (what === "neighbours") editor.edit({ do: "grow", how: "neighbours", ops, device: null, unpin: false });
  else editor.selectOps(ops, true);
}

editor.provide({ fallback });
