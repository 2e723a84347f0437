/* The Devices tab: every finished field is an edit, so that two that follow each other are both done, in order. */

/** The field that was sent last: back at its value in the table, it takes back what was said about it. */
let last = "";

/**
 * A field that a person changed is an edit; one that is drawn anew shows what the table has.
 * @param {(string | string[] | null)[]} values
 * @param {{ index: number, field: string }[]} fields
 * @param {Record<string, unknown>[]} table what the fields of each device showed when they were drawn
 */
function deviceFieldChanged(values, fields, table) {
  const told = window.dash_clientside.callback_context.triggered.map(({ prop_id }) => prop_id);
  fields.forEach(({ index, field }, i) => {
    const device = page.view?.devices[index],
      key = `${index} ${field}`;
    if (!device || !told.some((each) => isOf(each, index, field))) return;
    if (text(values[i]) === text(table[index]?.[field]) && key !== last) return;
    last = key;
    editor.edit({ do: "device-field", name: device.name, device: index, field, value: values[i] ?? null });
  });
}

/** @param {string} property as Dash names it, `{"field":"memory",...}.value` @param {number} index @param {string} field */
function isOf(property, index, field) {
  const id = JSON.parse(property.slice(0, property.lastIndexOf(".")));
  return id.index === index && id.field === field;
}

/** @param {unknown} value */
const text = (value) => JSON.stringify(value === "" || value === undefined ? null : value);

const forms = () => /** @type {HTMLElement[]} */ ([...(editor.byId("device-forms")?.children ?? [])]),
  nameIn = (/** @type {HTMLElement} */ form) => form.querySelector("legend b")?.textContent;

/** @param {string | null} text */
function deviceAdded(text) {
  if (text) {
    editor.edit({ do: "add-device", text });
    setTimeout(() => editor.set("device-add", { value: null }), 0);
    const known = new Set(forms().map(nameIn)),
      isNew = (/** @type {HTMLElement} */ form) => !known.has(nameIn(form));
    setTimeout(() => forms().find(isNew)?.scrollIntoView({ block: "nearest" }), 600); // it is there then
  }
}

/* Limits in the Memory tab are fields of the device table too. */
editor.on("change", "[data-memory-limit]", (box, event) => {
  const index = Number(box.dataset.memoryLimit),
    device = page.view?.devices[index],
    { value } = /** @type {HTMLInputElement} */ (event.target);
  if (device) editor.edit({ do: "device-field", name: device.name, device: index, field: "memory", value: value || null });
});

/** @type {Hetero["stateWatts"]} */
function stateWatts(asked, button) {
  const boxes = [...(button.parentElement?.querySelectorAll("[data-watts-of]") ?? [])],
    field = (/** @type {HTMLElement} */ box) => /** @type {HTMLInputElement} */ (box.querySelector("input")),
    empty = boxes.find((box) => !(Number(field(box).value) > 0));
  if (empty) {
    field(empty).focus();
    return;
  }
  for (const box of boxes) {
    const name = box.dataset.wattsOf ?? "",
      device = page.view.devices.findIndex((each) => each.name === name);
    if (device >= 0) editor.edit({ do: "device-field", name, device, field: "power", value: `${field(box).value} W` });
  }
  editor.edit(asked);
  editor.closeNotice();
}

editor.on("keydown", "[data-watts-of]", (box, event) => {
  if (event.key === "Enter") box.parentElement?.querySelector("[data-state-watts]")?.click();
});

editor.provide({ stateWatts });
editor.callbacks({ deviceFieldChanged, deviceAdded });
