/* Tabs, menus and messages as Dash components, and what comes after the graph. `editor/web/controls.py` names their properties. */

const { Fragment, createElement: h, useEffect, useRef, useState } = React;

/* What is not needed for the first edit waits for the graph. */
let graphShown = false;
/** @type {(() => void)[]} */
const waiting = [];
window.heteroGraphShown = () => {
  window.heteroScripts("after-graph").then(() => {
    graphShown = true;
    for (const show of waiting.splice(0)) show();
  });
};

function useGraphShown() {
  const [shown, setShown] = useState(graphShown);
  useEffect(() => {
    if (!shown) waiting.push(() => setShown(true));
  }, []);
  return shown;
}

/** @param {{ children: unknown }} props */
const Deferred = ({ children }) => (useGraphShown() ? children : null);

/** @param {unknown} node @returns {unknown} */
function element(node) {
  if (typeof node === "string") return node;
  const [tag, properties, ...children] = /** @type {Exclude<Controls.Node, string>} */ (node);
  return h(tag, properties, ...children.map(element));
}

/** @param {{ tree: Controls.Node[] }} props */
const StaticHtml = ({ tree }) => h(Fragment, {}, ...tree.map(element));

/** @param {Controls.TabsProps} props */
function Tabs({ id, value, tabs, children, setProps }) {
  const seen = useRef(new Set()),
    shown = useGraphShown();
  seen.current.add(value);
  useEffect(() => {
    if (shown) editor.panelsShown();
  }, [shown]);
  /** @param {string} name */
  const tabId = (name) => `${editor.idOf(id)}-tab-${name}`;
  /** @param {string} name */
  const panelId = (name) => `${editor.idOf(id)}-panel-${name}`;

  /** @param {KeyboardEvent} event */
  function walk(event) {
    const now = tabs.findIndex((tab) => tab.value === value),
      next = editor.walked(event.key, ["ArrowLeft", "ArrowRight"], tabs, now);
    if (!next) return;
    event.preventDefault();
    setProps({ value: next.value });
    document.getElementById(tabId(next.value))?.focus();
  }

  const heads = tabs.map(({ value: name, label }) => {
    const isShown = name === value,
      aria = { role: "tab", "aria-selected": isShown, "aria-controls": panelId(name), tabIndex: isShown ? 0 : -1 };
    return h(
      "button",
      { key: name, id: tabId(name), type: "button", ...aria, onClick: () => setProps({ value: name }) },
      label,
    );
  });
  const panels = tabs.map(({ value: name, lazy }, i) => {
    const aria = { role: "tabpanel", "aria-labelledby": tabId(name), hidden: name !== value };
    return h(
      "div",
      { key: name, id: panelId(name), className: "tab-panel", ...aria },
      shown && (!lazy || seen.current.has(name)) && children[i],
    );
  });
  return h("div", { id: editor.idOf(id), className: "tabs" }, h("div", { role: "tablist", onKeyDown: walk }, heads), panels);
}

/* Enter in a field of a popover does what its main button does, once the field has said what it holds. */
/** @param {KeyboardEvent} event */
function pressMain(event) {
  const target = /** @type {HTMLElement} */ (event.target),
    main = target.closest(".popover")?.querySelector("button.primary");
  if (event.key === "Enter" && target.tagName === "INPUT" && main) setTimeout(() => main.click(), 0);
}

/** The items of a group that was folded out are in sight. @param {Event} event */
function showGroup(event) {
  const group = /** @type {HTMLElement} */ (event.target);
  if (group instanceof HTMLDetailsElement && group.open) group.scrollIntoView({ block: "nearest" });
}

/** @param {Controls.PopoverProps} props */
function Popover(props) {
  const { id, label, title, menu, busy, link, end, children } = props;
  const [open, setOpen] = useState(false);
  const box = useRef(/** @type {HTMLElement | null} */ (null)),
    panel = useRef(/** @type {HTMLElement | null} */ (null)),
    seen = useRef(false);
  seen.current ||= open; // then it stays: Dash draws anew what it had first, and takes no change that it knows
  const items = () => {
    const all = panel.current?.querySelectorAll(":is(button, input, select):enabled, summary") ?? [];
    return /** @type {HTMLElement[]} */ ([...all]).filter((item) => item.checkVisibility()); // none in a closed group
  };

  useEffect(() => {
    if (!open) return undefined;
    for (const group of panel.current?.querySelectorAll("details") ?? []) group.open = false;
    items()[0]?.focus();
    /** @param {Event} event */
    const outside = (event) => {
      if (!box.current?.contains(/** @type {Node} */ (event.target))) setOpen(false);
    };
    /** A button that is busy has no focus to close by. @param {KeyboardEvent} event */
    const byEscape = (event) => {
      if (event.key !== "Escape" || event.target !== document.body) return;
      event.stopPropagation();
      setOpen(false);
    };
    const closed = new AbortController(),
      how = { capture: true, signal: closed.signal };
    document.addEventListener("pointerdown", outside, how);
    document.addEventListener("keydown", byEscape, how);
    return () => closed.abort();
  }, [open]);

  /** @param {KeyboardEvent} event */
  function key(event) {
    if (!open) return;
    pressMain(event);
    const all = items(),
      now = all.indexOf(/** @type {HTMLElement} */ (document.activeElement)),
      next = menu && editor.walked(event.key, ["ArrowUp", "ArrowDown"], all, now);
    if (event.key === "Escape") {
      setOpen(false);
      /** @type {HTMLElement} */ (box.current?.firstElementChild)?.focus();
    } else if (event.key === "Tab" && menu) setOpen(false);
    else if (next) {
      event.preventDefault();
      next.focus();
    }
    if (event.key !== "Tab") event.stopPropagation(); // these keys are no commands of the page
  }

  const role = menu ? "menu" : "dialog",
    aria = { "aria-busy": busy || undefined, "aria-expanded": open, "aria-haspopup": role },
    look = { type: "button", title, className: link ? "link" : "button", disabled: busy };
  /** @param {{ target: HTMLElement }} event */
  const onClick = ({ target }) => {
    if (target.closest(menu ? "button" : "[data-command]")) setTimeout(() => setOpen(false), 0);
  };
  return h(
    "div",
    { className: editor.classes("popover", end && "end"), ref: box, onKeyDown: key },
    h("button", { id: editor.idOf(id), ...look, ...aria, onClick: () => setOpen(!open) }, editor.icon(props.icon), label),
    seen.current &&
      h(
        "div",
        {
          ref: panel,
          hidden: !open,
          role,
          "aria-label": label,
          className: "popover-panel",
          onToggleCapture: showGroup,
          onClick,
        },
        children,
      ),
  );
}

/** @param {Controls.AlertProps} props */
function Alert({ id, title, children }) {
  const [closed, close] = useState(false);
  useEffect(() => close(false), [children]);
  return h(
    "div",
    { id: editor.idOf(id), role: "alert", className: "alert", hidden: closed },
    h("div", {}, h("b", {}, title), h("div", { className: "message" }, children)),
    h("button", { type: "button", className: "close", "aria-label": "Close", onClick: () => close(true) }, "×"),
  );
}

Object.assign(window.hetero_controls, { Deferred, StaticHtml, Tabs, Popover, Alert });
