/* Fields, lists, tabs and menus as Dash components, of the browser's own elements. `editor/web/controls.py` names their properties. */
(() => {
  "use strict";

  const { createElement: h, useEffect, useRef, useState } = React;

  /** @param {Controls.Id | undefined} id */
  const idOf = (id) => (id === undefined ? undefined : window.dash_component_api.stringifyId(id));

  /** @param {object} props */
  const marks = (props) => Object.fromEntries(Object.entries(props).filter(([name]) => /^(aria|data)-/.test(name)));

  /** @param {string | undefined} name */
  const icon = (name) => name && h("span", { className: `icon icon-${name}`, "aria-hidden": true });

  /** @param {...(string | false | undefined)} names */
  const classes = (...names) => names.filter(Boolean).join(" ");

  /**
   * A field with its name above it.
   * @param {{ label?: string, className?: string, hidden?: boolean, width?: number }} props
   * @param {...unknown} field
   */
  const labelled = (props, ...field) =>
    h(
      props.label ? "label" : "span",
      { className: classes("field", props.className), hidden: props.hidden, style: { width: props.width } },
      props.label && h("span", { className: "field-label" }, props.label),
      ...field,
    );

  /** @param {Controls.ButtonProps} props */
  function Button(props) {
    const { id, children, n_clicks, disabled, busy, primary, className, title, setProps } = props;
    return h(
      "button",
      {
        ...marks(props),
        id: idOf(id),
        type: "button",
        title,
        className: classes("button", primary && "primary", className),
        disabled: disabled || busy,
        "aria-busy": busy || undefined,
        onClick: () => setProps({ n_clicks: (n_clicks || 0) + 1 }),
      },
      icon(props.icon),
      children,
    );
  }

  /**
   * @param {Controls.Item[]} data
   * @returns {unknown[]}
   */
  const options = (data) =>
    data.map((item) => {
      if (typeof item === "string") return h("option", { key: item, value: item }, item);
      if ("group" in item) return h("optgroup", { key: item.group, label: item.group }, options(item.items));
      return h("option", { key: item.value, value: item.value }, item.label);
    });

  /**
   * @param {Controls.Item[]} data
   * @returns {{ value: string, label: string }[]}
   */
  const choices = (data) =>
    data.flatMap((item) =>
      typeof item === "string" ? { value: item, label: item } : "group" in item ? choices(item.items) : item,
    );

  /** @param {Controls.SelectProps} props */
  function Select(props) {
    const { id, value, data, placeholder, disabled, setProps } = props;
    return labelled(
      props,
      h(
        "select",
        {
          ...marks(props),
          id: idOf(id),
          value: value ?? "",
          disabled,
          /** @param {Event} event */
          onChange: (event) => setProps({ value: /** @type {HTMLSelectElement} */ (event.target).value || null }),
        },
        placeholder !== undefined && h("option", { value: "" }, placeholder),
        options(data),
      ),
    );
  }

  /** @param {string | number | null | undefined} value */
  const shown = (value) => (value === null || value === undefined ? "" : String(value));

  /** @param {Controls.FieldProps} props */
  function Field(props) {
    const {
      id,
      value,
      type = "text",
      min,
      max,
      step,
      placeholder,
      debounce,
      suggestions,
      disabled,
      n_submit,
      setProps,
    } = props;
    const [text, setText] = useState(shown(value));
    useEffect(() => {
      setText(shown(value));
      return undefined;
    }, [value]);

    /** @param {string} raw */
    function send(raw) {
      const next = type === "number" && raw !== "" ? Number(raw) : raw;
      if (next !== (value ?? "")) setProps({ value: next });
    }

    /** A number outside its limits becomes the nearest one inside. */
    function leave() {
      const number = Number(text),
        inside = type === "number" && text !== "" ? String(Math.min(max ?? number, Math.max(min ?? number, number))) : text;
      setText(inside);
      send(inside);
    }

    return labelled(
      { ...props, className: classes(props.className, props.icon && "with-icon") },
      icon(props.icon),
      h("input", {
        ...marks(props),
        id: idOf(id),
        value: text,
        type,
        min,
        max,
        step,
        placeholder,
        disabled,
        autoComplete: "off",
        spellCheck: false,
        list: suggestions && `${idOf(id)}-suggestions`,
        /** @param {Event} event */
        onChange: (event) => {
          const raw = /** @type {HTMLInputElement} */ (event.target).value;
          setText(raw);
          if (!debounce) send(raw);
        },
        onBlur: leave,
        /** @param {KeyboardEvent} event */
        onKeyDown: (event) => {
          if (event.key !== "Enter") return;
          leave();
          setProps({ n_submit: (n_submit || 0) + 1 });
        },
      }),
      suggestions && h("datalist", { id: `${idOf(id)}-suggestions` }, options(suggestions)),
    );
  }

  /** @param {Controls.CheckboxProps} props */
  function Checkbox({ id, checked, label, disabled, setProps }) {
    return h(
      "label",
      { className: "checkbox" },
      h("input", {
        id: idOf(id),
        type: "checkbox",
        checked: Boolean(checked),
        disabled,
        /** @param {Event} event */
        onChange: (event) => setProps({ checked: /** @type {HTMLInputElement} */ (event.target).checked }),
      }),
      label,
    );
  }

  /** @param {Controls.SeveralProps} props */
  function Several(props) {
    const { id, data, placeholder, search, setProps } = props;
    const value = props.value || [],
      known = choices(data);
    const [text, setText] = useState("");

    /** @param {string} raw */
    function add(raw) {
      const found = known.find((each) => each.value === raw || each.label === raw);
      setText(found ? "" : raw);
      if (found && !value.includes(found.value)) setProps({ value: [...value, found.value] });
    }
    /** @param {string} gone */
    const remove = (gone) => setProps({ value: value.filter((each) => each !== gone) });

    const left = data.map((item) =>
      typeof item === "object" && "group" in item
        ? { ...item, items: choices(item.items).filter((each) => !value.includes(each.value)) }
        : item,
    );
    const chosen = value.map((each) => {
      const name = known.find((one) => one.value === each)?.label ?? each;
      return h(
        "li",
        { key: each },
        name,
        h(
          "button",
          {
            type: "button",
            className: "mini",
            title: `Remove ${name}`,
            "aria-label": `Remove ${name}`,
            onClick: () => remove(each),
          },
          "×",
        ),
      );
    });
    const list = `${idOf(id)}-suggestions`;
    const typed = h("input", {
      ...marks(props),
      id: idOf(id),
      "aria-label": props.label,
      value: text,
      list,
      placeholder,
      autoComplete: "off",
      spellCheck: false,
      /** @param {Event} event */
      onChange: (event) => {
        const raw = /** @type {HTMLInputElement} */ (event.target).value,
          how = /** @type {InputEvent} */ (/** @type {any} */ (event).nativeEvent).inputType;
        if (!how || how === "insertReplacementText")
          add(raw); // chosen from the suggestions
        else setText(raw);
      },
      /** @param {KeyboardEvent} event */
      onKeyDown: (event) => {
        if (event.key === "Enter") add(text);
        else if (event.key === "Backspace" && !text && value.length) remove(value[value.length - 1]);
      },
    });
    const picked = h(
      "select",
      {
        ...marks(props),
        id: idOf(id),
        "aria-label": props.label,
        value: "",
        /** @param {Event} event */
        onChange: (event) => add(/** @type {HTMLSelectElement} */ (event.target).value),
      },
      h("option", { value: "" }, placeholder),
      options(left),
    );
    return h(
      "div",
      { className: classes("field", "several", props.className) },
      props.label && h("span", { className: "field-label" }, props.label),
      h("div", { className: "several-box" }, value.length > 0 && h("ul", {}, chosen), search ? typed : picked),
      search && h("datalist", { id: list }, options(choices(left))),
    );
  }

  /* What is not needed for the first stroke waits for the graph. */
  let graphShown = false;
  /** @type {(() => void)[]} */
  const waiting = [];
  window.heteroGraphShown = () => {
    graphShown = true;
    window.heteroScripts("after-graph");
    for (const show of waiting.splice(0)) show();
  };

  function useGraphShown() {
    const [shown, setShown] = useState(graphShown);
    useEffect(() => {
      if (!shown) waiting.push(() => setShown(true));
      return undefined;
    }, []);
    return shown;
  }

  /** @param {{ children: unknown }} props */
  const Later = ({ children }) => (useGraphShown() ? children : null);

  /** @type {Record<string, (now: number, count: number) => number>} */
  const STEPS = {
    ArrowRight: (now, count) => (now + 1) % count,
    ArrowLeft: (now, count) => (now + count - 1) % count,
    Home: () => 0,
    End: (_now, count) => count - 1,
  };

  /** @param {Controls.TabsProps} props */
  function Tabs({ id, value, tabs, children, setProps }) {
    const seen = useRef(new Set()),
      shown = useGraphShown();
    seen.current.add(value);
    useEffect(() => {
      if (shown) window.hetero.panelsShown();
      return undefined;
    }, [shown]);
    /** @param {string} name */
    const tabId = (name) => `${idOf(id)}-tab-${name}`;
    /** @param {string} name */
    const panelId = (name) => `${idOf(id)}-panel-${name}`;

    /** @param {KeyboardEvent} event */
    function walk(event) {
      const now = tabs.findIndex((tab) => tab.value === value),
        next = tabs[STEPS[event.key]?.(now, tabs.length)];
      if (!next) return;
      event.preventDefault();
      setProps({ value: next.value });
      document.getElementById(tabId(next.value))?.focus();
    }

    const heads = tabs.map((tab) =>
      h(
        "button",
        {
          key: tab.value,
          id: tabId(tab.value),
          type: "button",
          role: "tab",
          "aria-selected": tab.value === value,
          "aria-controls": panelId(tab.value),
          tabIndex: tab.value === value ? 0 : -1,
          onClick: () => setProps({ value: tab.value }),
        },
        tab.label,
      ),
    );
    const panels = tabs.map((tab, i) =>
      h(
        "div",
        {
          key: tab.value,
          id: panelId(tab.value),
          role: "tabpanel",
          "aria-labelledby": tabId(tab.value),
          hidden: tab.value !== value,
          className: "tab-panel",
        },
        shown && (!tab.lazy || seen.current.has(tab.value)) && children[i],
      ),
    );
    return h("div", { id: idOf(id), className: "tabs" }, h("div", { role: "tablist", onKeyDown: walk }, heads), panels);
  }

  /** @param {Controls.PopoverProps} props */
  function Popover(props) {
    const { id, label, title, menu, busy, link, end, children } = props;
    const [open, setOpen] = useState(false);
    const box = useRef(/** @type {HTMLElement | null} */ (null)),
      panel = useRef(/** @type {HTMLElement | null} */ (null));
    const items = () => /** @type {HTMLElement[]} */ ([...(panel.current?.querySelectorAll("button, input, select") ?? [])]);

    useEffect(() => {
      if (!open) return undefined;
      items()[0]?.focus();
      /** @param {Event} event */
      const outside = (event) => {
        if (!box.current?.contains(/** @type {Node} */ (event.target))) setOpen(false);
      };
      document.addEventListener("pointerdown", outside, true);
      return () => document.removeEventListener("pointerdown", outside, true);
    }, [open]);

    /** @param {KeyboardEvent} event */
    function key(event) {
      if (!open) return;
      const all = items(),
        now = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
      const step = menu ? { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: all.length - 1 }[event.key] : undefined;
      if (event.key === "Escape") {
        setOpen(false);
        /** @type {HTMLElement} */ (box.current?.firstElementChild)?.focus();
      } else if (event.key === "Tab" && menu) setOpen(false);
      else if (step !== undefined) {
        event.preventDefault();
        all[(step + all.length) % all.length].focus();
      }
      if (event.key !== "Tab") event.stopPropagation(); // these keys are no commands of the page
    }

    return h(
      "div",
      {
        className: classes("popover", end && "end"),
        ref: box,
        onKeyDown: key,
      },
      h(
        "button",
        {
          id: idOf(id),
          type: "button",
          title,
          className: link ? "link" : "button",
          disabled: busy,
          "aria-busy": busy || undefined,
          "aria-expanded": open,
          "aria-haspopup": menu ? "menu" : "dialog",
          onClick: () => setOpen(!open),
        },
        icon(props.icon),
        label,
      ),
      open &&
        h(
          "div",
          {
            ref: panel,
            role: menu ? "menu" : "dialog",
            "aria-label": label,
            className: "popover-panel",
            /** @param {Event} event */
            onClick: (event) => {
              if (menu && /** @type {HTMLElement} */ (event.target).closest("button")) setTimeout(() => setOpen(false), 0);
            },
          },
          children,
        ),
    );
  }

  /** @param {Controls.AlertProps} props */
  function Alert({ id, title, children }) {
    const [closed, close] = useState(false);
    useEffect(() => {
      close(false);
      return undefined;
    }, [children]);
    return h(
      "div",
      { id: idOf(id), role: "alert", className: "alert", hidden: closed },
      h("div", {}, h("b", {}, title), h("div", { className: "message" }, children)),
      h("button", { type: "button", className: "close", "aria-label": "Close", onClick: () => close(true) }, "×"),
    );
  }

  window.hetero_controls = { Button, Select, Field, Checkbox, Several, Tabs, Popover, Alert, Later };
})();
