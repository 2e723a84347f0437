/* The Devices tab: every finished field is an edit, so that two that follow each other are both done, in order. */
((editor) => {
  "use strict";

  /** Values that were sent, by place and field, until the table is another one. @type {Map<string, string>} */
  const sent = new Map();
  let sentOf = "";

  /**
   * A field is an edit where it differs from the table: fields that are drawn anew do not.
   * @param {(string | string[] | null)[]} values
   * @param {{ index: number, field: string }[]} fields
   * @param {Record<string, unknown>[]} table what the fields of each device showed when they were drawn
   */
  function deviceFieldChanged(values, fields, table) {
    if (sentOf !== JSON.stringify(table)) sent.clear();
    sentOf = JSON.stringify(table);
    fields.forEach(({ index, field }, i) => {
      const device = editor.page.view?.devices[index],
        value = text(values[i]),
        key = `${index} ${field}`;
      if (!device || value === (sent.get(key) ?? text(table[index]?.[field]))) return;
      sent.set(key, value);
      editor.edit({ do: "device-field", name: device.name, device: index, field, value: values[i] ?? null });
    });
  }

  /** @param {unknown} value */
  const text = (value) => JSON.stringify(value === "" || value === undefined ? null : value);

  const showLast = () => editor.byId("device-forms")?.lastElementChild?.scrollIntoView({ block: "nearest" });

  /** @param {string | null} text */
  function deviceAdded(text) {
    if (text) {
      const by = editor.page.view?.policy === "priority" ? " By priority it takes only what no device above it takes." : "";
      editor.edit({
        do: "add-device",
        text,
        message: { text: `${text} is the last device of the table now; ↑ raises it.${by}`, bad: false },
      });
      setTimeout(() => editor.set("device-add", { value: null }), 0);
      setTimeout(showLast, 600); // its form is there then
    }
  }

  editor.callbacks({ deviceFieldChanged, deviceAdded });
})(window.hetero);
