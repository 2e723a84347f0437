/* The Devices tab: every finished field is a stroke, so that two that follow each other are both done, in order. */
((editor) => {
  "use strict";

  /**
   * @param {(number | null)[]} changes how often a person changed each field; none for a field that was drawn anew
   * @param {(string | string[] | null)[]} values
   * @param {{ index: number, field: string }[]} fields
   */
  function deviceFieldChanged(changes, values, fields) {
    const told = window.dash_clientside.callback_context.triggered.map(({ prop_id }) => prop_id);
    fields.forEach((id, i) => {
      const device = editor.page.view?.devices[id.index];
      if (!changes[i] || !device || !told.some((each) => isOf(each, id))) return;
      editor.stroke({ do: "device-field", name: device.name, device: id.index, field: id.field, value: values[i] ?? null });
    });
    return window.dash_clientside.no_update;
  }

  /**
   * @param {string} property as Dash names it, `{"field":"memory",...}.changes`
   * @param {{ index: number, field: string }} id
   */
  function isOf(property, id) {
    const { index, field } = JSON.parse(property.slice(0, property.lastIndexOf(".")));
    return index === id.index && field === id.field;
  }

  const showLast = () => editor.byId("device-forms")?.lastElementChild?.scrollIntoView({ block: "nearest" });

  /** @param {string | null} text */
  function deviceAdded(text) {
    if (text) {
      const by = editor.page.view?.policy === "priority" ? " By priority it takes only what no device above it takes." : "";
      editor.stroke({
        do: "add-device",
        text,
        message: { text: `${text} is the last device of the table now; ↑ raises it.${by}`, bad: false },
      });
      setTimeout(() => editor.set("device-add", { value: null }), 0);
      setTimeout(showLast, 600); // its form is there then
    }
    return window.dash_clientside.no_update;
  }

  editor.callbacks({ deviceFieldChanged, deviceAdded });
})(window.hetero);
