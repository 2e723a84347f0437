/* Buttons, fields and lists as Dash components, of the browser's own elements. `editor/web/controls.py` names their properties. */

const { createElement: h, useEffect, useState } = React;

/** @type {Hetero["idOf"]} */
const idOf = (id) => (id === undefined ? undefined : window.dash_component_api.stringifyId(id));

/** @param {object} props */
const marks = (props) => Object.fromEntries(Object.entries(props).filter(([name]) => /^(aria|data)-/.test(name)));

/** @type {Hetero["icon"]} */
const icon = (name) => name && h("span", { className: `icon icon-${name}`, "aria-hidden": true });

/** @type {Hetero["classes"]} */
const classes = (...names) => names.filter(Boolean).join(" ");

/**
 * A field with its name above it, as people say it, and as a file has it.
 * @param {{ label?: string, code?: string, className?: string, hidden?: boolean, width?: number, title?: string }} props
 * @param {...unknown} field
 */
function labelled({ label, code, className, hidden, width, title }, ...field) {
  const words = [label, label && code && " ", code && h("code", {}, code)],
    isNamed = label || code;
  return h(
    isNamed ? "label" : "span",
    { className: classes("field", className), hidden, style: { width }, title },
    isNamed && h("span", { className: "field-label" }, ...words),
    ...field,
  );
}

/** @param {Controls.ButtonProps} props */
function Button(props) {
  const { id, children, n_clicks, disabled, busy, primary, className, title, setProps } = props;
  const look = { type: "button", title, className: classes("button", primary && "primary", className) },
    state = { disabled: disabled || busy, "aria-busy": busy || undefined },
    onClick = () => setProps({ n_clicks: (n_clicks || 0) + 1 });
  return h("button", { ...marks(props), id: idOf(id), ...look, ...state, onClick }, icon(props.icon), children);
}

/** @param {Controls.Item[]} data @returns {unknown[]} */
const options = (data) =>
  data.map((item) => {
    if (typeof item === "string") return h("option", { key: item, value: item }, item);
    if ("group" in item) return h("optgroup", { key: item.group, label: item.group }, options(item.items));
    return h("option", { key: item.value, value: item.value, disabled: item.disabled, title: item.title }, item.label);
  });

/** @param {Controls.Item[]} data @returns {{ value: string, label: string }[]} */
const choices = (data) =>
  data.flatMap((item) =>
    typeof item === "string" ? { value: item, label: item } : "group" in item ? choices(item.items) : item,
  );

/** @param {Controls.SelectProps} props */
function Select(props) {
  const { id, value, data, placeholder, disabled, setProps } = props;
  /** @param {{ target: HTMLInputElement }} event */
  const onChange = ({ target }) => setProps({ value: target.value || null });
  return labelled(
    props,
    h(
      "select",
      { ...marks(props), id: idOf(id), value: value ?? "", disabled, onChange },
      placeholder !== undefined && h("option", { value: "" }, placeholder),
      options(data),
    ),
  );
}

/** What browsers would do of their own in a field. */
const BARE = { autoComplete: "off", spellCheck: false };

/** @param {string | number | null | undefined} value */
const shown = (value) => (value === null || value === undefined ? "" : String(value));

/** @param {Controls.FieldProps} props */
function Field(props) {
  const { id, value, type = "text", min, max, step, placeholder, disabled, rows } = props,
    { debounce, suggestions, n_submit, setProps } = props,
    plain = { ...marks(props), ...BARE, min, max, step, placeholder, disabled, rows };
  const [text, setText] = useState(shown(value));
  useEffect(() => setText(shown(value)), [value]);

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
    h(rows ? "textarea" : "input", {
      ...plain,
      id: idOf(id),
      value: text,
      "data-sent": debounce ? shown(value) : undefined,
      type: rows ? undefined : type,
      list: suggestions && `${idOf(id)}-suggestions`,
      onChange: ({ target }) => {
        setText(target.value);
        if (!debounce) send(target.value);
      },
      onBlur: leave,
      onKeyDown: (event) => {
        if (event.key !== "Enter" || rows) return;
        leave();
        setProps({ n_submit: (n_submit || 0) + 1 });
      },
    }),
    suggestions && h("datalist", { id: `${idOf(id)}-suggestions` }, options(suggestions)),
  );
}

/** @param {Controls.CheckboxProps} props */
function Checkbox({ id, checked, label, disabled, setProps }) {
  /** @param {{ target: HTMLInputElement }} event */
  const onChange = ({ target }) => setProps({ checked: target.checked });
  return h(
    "label",
    { className: "checkbox" },
    h("input", { id: idOf(id), type: "checkbox", checked: Boolean(checked), disabled, onChange }),
    label,
  );
}

/** @param {Controls.MultiSelectProps} props */
function MultiSelect(props) {
  const { id, data, placeholder, search } = props;
  /** @param {string[]} next */
  const setValue = (next) => props.setProps({ value: next });
  const value = props.value || [],
    known = choices(data);
  const [text, setText] = useState(""),
    [unknown, setUnknown] = useState("");

  /** @param {string} raw one, or several with commas between them; what is not known stays to be corrected */
  function add(raw) {
    const words = raw.split(",").flatMap((word) => word.trim() || []),
      is = (/** @type {string} */ name, /** @type {string} */ word) => name.toLowerCase() === word.toLowerCase(),
      found = words.map((word) => known.find((each) => is(each.value, word) || is(each.label, word))?.value),
      wrong = words.filter((_, i) => !found[i]),
      more = found.flatMap((one) => (one && !value.includes(one) ? one : []));
    setText(wrong.join(", "));
    setUnknown(wrong.length ? `Nothing is called ${wrong.join(", ")} here.` : "");
    if (more.length) setValue([...value, ...new Set(more)]);
  }
  /** @param {string} gone */
  const remove = (gone) => setValue(value.filter((each) => each !== gone));

  const left = data.map((item) =>
    typeof item === "object" && "group" in item
      ? { ...item, items: choices(item.items).filter((each) => !value.includes(each.value)) }
      : item,
  );
  const chosen = value.map((each) => {
    const name = known.find((one) => one.value === each)?.label ?? each,
      title = `Remove ${name}`,
      how = { type: "button", className: "mini", title, "aria-label": title, onClick: () => remove(each) };
    return h("li", { key: each }, name, h("button", how, "×"));
  });
  const list = `${idOf(id)}-suggestions`,
    common = { ...marks(props), id: idOf(id), "aria-label": props.label };
  const typed = h("input", {
    ...common,
    ...BARE,
    value: text,
    list,
    placeholder,
    onChange: ({ target, nativeEvent }) => {
      const how = nativeEvent.inputType;
      if (!how || how === "insertReplacementText")
        add(target.value); // chosen from the suggestions
      else setText(target.value);
      setUnknown("");
    },
    onBlur: () => text && add(text),
    "aria-invalid": unknown ? "true" : undefined,
    onKeyDown: (event) => {
      if (event.key === "Enter") add(text);
      else if (event.key === "Backspace" && !text && value.length) remove(value[value.length - 1]);
    },
  });
  const picked = h(
    "select",
    { ...common, value: "", onChange: (event) => add(event.target.value) },
    h("option", { value: "" }, placeholder),
    options(left),
  );
  return h(
    "div",
    { className: classes("field", "several", props.className) },
    props.label && h("span", { className: "field-label" }, props.label),
    h("div", { className: "several-box" }, value.length > 0 && h("ul", {}, chosen), search ? typed : picked),
    search && h("datalist", { id: list }, options(choices(left))),
    unknown && h("span", { className: "hint warn", role: "alert" }, unknown),
  );
}

window.hetero_controls = { Button, Select, Field, Checkbox, MultiSelect };
editor.provide({ idOf, icon, classes });
