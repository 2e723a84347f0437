/* The slider of the context in the tab Memory: what the split lacks there, and the way to a plan for it; sizes that are refused. */

/** @typedef {[number, string, string]} Step Tokens, what there is to say of them, and its class */

/** The tokens that are chosen. @param {HTMLElement} box */
const chosen = (box) => fieldsOf(box).tokens.valueAsNumber;

/** The slider, the field beside it and the steps of the slider. @param {HTMLElement} box */
function fieldsOf(box) {
  return {
    slider: /** @type {HTMLInputElement} */ (editor.one("input[type=range]", box)),
    tokens: /** @type {HTMLInputElement} */ (editor.one("input[type=number]", box)),
    steps: /** @type {Step[]} */ (JSON.parse(box.dataset.steps ?? "[]")),
  };
}

/** A line in each chart of growth, at the tokens that are chosen. @param {number} chosenTokens */
function mark(chosenTokens) {
  for (const plot of editor.all("#memory [data-end]"))
    editor.one(".memory-at", plot).style.left = `${Math.min((100 * chosenTokens) / Number(plot.dataset.end), 100)}%`;
}

editor.on("input", "[data-context]", async (box, event) => {
  const { slider, tokens: field, steps } = fieldsOf(box);
  if (event.target === slider) field.value = String(steps[Number(slider.value)][0]);
  else {
    const step = steps.findLastIndex(([length]) => length <= field.valueAsNumber);
    slider.value = String(Math.max(step, 0));
  }
  const plan = /** @type {HTMLButtonElement} */ (editor.one("button", box)),
    tokens = chosen(box);
  const isLength = Number.isInteger(tokens) && field.validity.valid;
  plan.disabled = !isLength || String(tokens) === box.dataset.now;
  if (!isLength) return;
  mark(tokens);
  const step = steps.find(([length]) => length === tokens);
  // of lengths between the steps of the slider the server says it
  const { said, look } = step ? { said: step[1], look: step[2] } : await editor.ask(`context?tokens=${tokens}`);
  if (chosen(box) !== tokens) return;
  Object.assign(editor.one("[role=status]", box), { textContent: said, className: look });
  slider.setAttribute("aria-valuetext", said);
});

/* The form of the sizes says what else they are, and is told if they are refused. */
editor.on("click", "[data-context]", (box, event) => {
  if (!editor.targetOf(event).matches(".tool:not([data-command])")) return;
  editor.set({ type: "size", name: box.dataset.context ?? "" }, { value: chosen(box) });
  setTimeout(() => editor.set("sizes-apply", { n_clicks: Date.now() }), 0);
});

/* The phases with a prompt that fits. */
editor.on("click", "[data-prompt-of]", (button) => {
  editor.set("phases-prompt-length", { value: Number(button.dataset.promptOf) });
  setTimeout(() => editor.set("phases-start", { n_clicks: Date.now() }), 0);
});

/* How long a prompt may be is tried with several sizes: only where somebody asks. */
editor.on("click", "[data-longest-prompt]", async (button) => {
  const status = /** @type {HTMLElement} */ (button.parentElement);
  status.textContent = "trying prompts …";
  try {
    const { said, look } = await editor.ask("prompt");
    Object.assign(status, { textContent: said, className: look });
  } catch (error) {
    status.replaceChildren(button);
    editor.complain(error);
  }
});

/* Before the command of the button places a prompt of that length. */
editor.onCapture("click", "#memory [data-command=run-phases-start]", () => {
  const box = document.querySelector("#memory [data-context]");
  if (box) editor.set("phases-prompt-length", { value: chosen(box) });
});

/* Beside their fields, unless these are closed, as after a choice with the slider. */
/** @param {{ props: Record<string, string> } | null} why */
function sizesRefused(why) {
  setTimeout(() => {
    if (why && !editor.byId("sizes-refused")?.checkVisibility())
      editor.complain({ status: 400, message: why.props["data-text"] });
  }, 50);
}

editor.callbacks({ sizesRefused });
