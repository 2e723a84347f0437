/* Files, folders and zip files from the person's machine to the server, streamed, with their progress. */

/** @typedef {{ name: string, file: File }} Part */

const PENDING = "hetero-editor-dropped";
const zone = () => editor.byId("upload");
/** @param {string} text */
function say(text, bad = false) {
  const place = editor.byId("upload-progress");
  if (!place) {
    if (bad) editor.complain(Object.assign(new Error(text), { status: 400 }));
    else if (text) editor.say(text);
    return;
  }
  place.textContent = text;
  place.classList.toggle("bad", bad);
}

/** @param {number} bytes */
const size = (bytes) => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

/**
 * Fetch does not tell how much has been sent; XMLHttpRequest does.
 * @param {string} address
 * @param {File} file
 * @param {(sent: number) => void} progress
 * @returns {Promise<void>}
 */
function put(address, file, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", address);
    request.upload.addEventListener("progress", (event) => progress(event.loaded));
    request.addEventListener("load", () => {
      if (request.status < 300) resolve();
      else reject(new Error(editor.reasonIn(request.responseText, "the server refused it")));
    });
    request.addEventListener("error", () => reject(new Error("the connection to the server was lost")));
    request.send(file);
  });
}

/** @param {string} name */
const suffix = (name) => /\.[^./]+$/.exec(name.toLowerCase())?.[0] ?? "";

/** Why files cannot be opened, by their names and first bytes; "" where the server has to look. @param {Part[]} parts */
async function refusal(parts) {
  /** @type {{ opens: string[], foreign: Record<string, string>, starts: [string, string][], none: string }} */
  const formats = JSON.parse(editor.one("#formats").textContent || "");
  const foreign = Object.keys(formats.foreign).flatMap((kind) => parts.filter((part) => suffix(part.name) === kind));
  const isPlan = (/** @type {Part} */ part) => suffix(part.name) === ".json";
  const models = parts.filter((part) => formats.opens.includes(suffix(part.name)));
  if (!models.length || (models.every(isPlan) && foreign.some((part) => suffix(part.name) !== ".pdiparams"))) {
    if (foreign.length) return `${foreign[0].name}: ${formats.foreign[suffix(foreign[0].name)]}`;
    for (const part of parts.slice(0, 20)) {
      const found = await meaning(part, formats.starts);
      if (found) return found;
    }
    return formats.none;
  }
  const model = models.find((part) => ![".zip", ".json", ".pt2"].includes(suffix(part.name)));
  return model ? meaning(model, formats.starts) : "";
}

/**
 * What a file is by its first bytes, where that is no model; "" otherwise.
 * @param {Part} part
 * @param {[string, string][]} starts
 */
async function meaning(part, starts) {
  const bytes = new Uint8Array(await part.file.slice(0, 256).arrayBuffer());
  const text = [...bytes].map((byte) => String.fromCharCode(byte)).join(""); // latin-1, as the server wrote them
  const known = starts.find(([start]) => (start.startsWith("<") ? text.trimStart() : text).startsWith(start));
  return known ? `${part.name} is ${known[1]}` : "";
}

/**
 * Paths of the files of weights that a model lacks, by the button that adds them.
 * @param {HTMLElement | null} button
 * @returns {string[]}
 */
const lacking = (button) => JSON.parse(button?.dataset.weightsFiles ?? "[]");

/** @param {string} path */
const last = (path) => path.slice(path.lastIndexOf("/") + 1);

/** @param {Part[]} parts @param {HTMLElement | null} adds the button that adds weights that a model lacks */
async function send(parts, adds = document.querySelector("[data-weights-files]")) {
  if (!parts.length) return;
  editor.byId("open-error")?.setAttribute("hidden", ""); // of what was opened before
  const names = lacking(adds).map(last);
  const weights = parts.every((part) => names.includes(last(part.name)));
  const upload = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const total = parts.reduce((sum, part) => sum + part.file.size, 0);
  let before = 0;
  try {
    const wrong = weights ? "" : await refusal(parts);
    if (wrong) throw new Error(wrong);
    zone()?.classList.add("active");
    for (const part of parts) {
      const address = `/models/${upload}?name=${encodeURIComponent(part.name)}`;
      await put(address, part.file, (sent) => say(`Uploading ${size(before + sent)} of ${size(total)} …`));
      before += part.file.size;
    }
    say("Checking …");
    if (weights) {
      await editor.request(`/d/${adds?.dataset.weightsOf}/weights/${upload}`, { method: "POST" });
      window.location.reload();
      return;
    }
    const { path } = await (await editor.request(`/models/${upload}`, { method: "POST" })).json();
    say("");
    if (zone()) editor.set("uploaded", { data: path });
    else {
      sessionStorage.setItem(PENDING, path); // the start page asks for devices and sizes
      window.location.assign("/open");
    }
  } catch (error) {
    say(`Not uploaded: ${/** @type {Error} */ (error).message}`, true);
  } finally {
    zone()?.classList.remove("active");
  }
}

/** All files below an entry that was dropped. @param {any} entry @returns {Promise<Part[]>} */
async function partsOf(entry) {
  if (entry.isFile) {
    const file = /** @type {File} */ (await new Promise((resolve, reject) => entry.file(resolve, reject)));
    return [{ name: entry.fullPath.replace(/^\//, ""), file }];
  }
  const reader = entry.createReader(),
    parts = [];
  for (;;) {
    // a reader gives a hundred entries at a time
    const some = /** @type {any[]} */ (await new Promise((resolve, reject) => reader.readEntries(resolve, reject)));
    if (!some.length) return parts.flat();
    parts.push(...(await Promise.all(some.map(partsOf))));
  }
}

/** Files may be dropped anywhere but on a field for files. @param {DragEvent} event */
const takes = (event) =>
  Boolean(
    (zone() || editor.byId("editor")) &&
      event.dataTransfer?.types.includes("Files") &&
      !editor.targetOf(event).closest?.("input[type=file], .dash-upload, #import-file, #rules-file"),
  );

const waiting = setInterval(() => {
  const path = sessionStorage.getItem(PENDING);
  if (!path) clearInterval(waiting);
  else if (zone() && window.dash_clientside) {
    sessionStorage.removeItem(PENDING);
    setTimeout(() => editor.set("uploaded", { data: path }), 300); // once the page's callbacks are there
  }
}, 100);

const overlay = editor.make("div", { id: "drop", hidden: true }, editor.make("b", {}, "Drop to open"));
document.body.append(overlay);

document.addEventListener("dragover", (event) => {
  overlay.hidden = !takes(event);
  if (!overlay.hidden) event.preventDefault();
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) overlay.hidden = true;
});
document.addEventListener("drop", async (event) => {
  overlay.hidden = true;
  if (!takes(event) || !event.dataTransfer) return;
  event.preventDefault();
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
  send((await Promise.all(entries.map(partsOf))).flat());
});

/**
 * The devices that were chosen, as the field for device tables takes them.
 * @param {string[] | null} planned
 * @param {boolean[]} ticked
 * @param {{ name: string }[]} here
 */
function chooseDevices(planned, ticked, here) {
  const presets = (planned ?? []).filter((name) => name.includes("("));
  const apart = (planned ?? []).map((name) => {
    const number = presets.indexOf(name) + 1; // names in a table differ: NPU(hailo8), NPU2(edgetpu)
    return number > 1 ? name.replace("(", `${number}(`) : name;
  });
  const names = [...apart, ...here.flatMap(({ name }, i) => (ticked[i] ? name : []))];
  const limited = names.every((name) => name.includes("(")); // accelerators that leave ops to the CPU
  return `HETERO:${[...names, ...(limited ? ["CPU"] : [])].join(",")}`;
}

/** @param {string} text */
const named = (text) => text.toLowerCase().replaceAll(/^\s*hetero:|\s/g, "");

/**
 * How the devices to choose from look: greyed where others are typed.
 * @param {string | null} typed
 * @param {[string[] | null, boolean[], { name: string }[]]} chosen
 */
const typedDevices = (typed, ...chosen) =>
  `devices-chosen${typed?.trim() && named(typed) !== named(chooseDevices(...chosen)) ? " unused" : ""}`;

editor.callbacks({ chooseDevices, typedDevices });

editor.on("click", "[data-upload]", (button) => {
  const kind = button.dataset.upload;
  const field = editor.make("input", { type: "file", multiple: true, webkitdirectory: kind === "folder" });
  field.addEventListener("change", () => {
    const parts = [...(field.files || [])].map((file) => ({ name: file.webkitRelativePath || file.name, file }));
    const other = kind === "weights" && parts.find((part) => !lacking(button).map(last).includes(part.name));
    if (other) say(`Not uploaded: the model needs ${lacking(button).join(", ")}, and this is ${other.name}.`, true);
    else send(parts, kind === "weights" ? button : undefined);
  });
  field.click();
});
