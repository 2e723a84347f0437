/* Files, folders and zip files from the person's machine to the server, streamed, with their progress. */
((editor) => {
  "use strict";

  /** @typedef {{ name: string, file: File }} Part */

  const PENDING = "hetero-editor-dropped";
  const zone = () => editor.byId("upload");
  /** @param {string} text */
  function say(text, bad = false) {
    const place = editor.byId("upload-progress");
    if (!place) {
      if (text) editor.say(text);
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
        else reject(new Error(reason(request.responseText)));
      });
      request.addEventListener("error", () => reject(new Error("the connection to the server was lost")));
      request.send(file);
    });
  }

  /** @param {string} text */
  function reason(text) {
    try {
      return JSON.parse(text).detail;
    } catch (_error) {
      return text || "the server refused it";
    }
  }

  /** @param {Part[]} parts */
  async function send(parts) {
    if (!parts.length) return;
    const upload = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    const total = parts.reduce((sum, part) => sum + part.file.size, 0);
    let before = 0;
    zone()?.classList.add("active");
    try {
      for (const part of parts) {
        const address = `/models/${upload}?name=${encodeURIComponent(part.name)}`;
        await put(address, part.file, (sent) => say(`Uploading ${size(before + sent)} of ${size(total)} …`));
        before += part.file.size;
      }
      say("Checking …");
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

  /**
   * All files below an entry that was dropped.
   * @param {any} entry
   * @returns {Promise<Part[]>}
   */
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

  /* Files may be dropped anywhere but on a field for files. */
  /** @param {DragEvent} event */
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

  document.addEventListener("dragover", (event) => {
    if (!takes(event)) return;
    event.preventDefault();
    zone()?.classList.add("active");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) zone()?.classList.remove("active");
  });
  document.addEventListener("drop", async (event) => {
    if (!takes(event) || !event.dataTransfer) return;
    event.preventDefault();
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    send((await Promise.all(entries.map(partsOf))).flat());
  });

  /* The devices that were chosen, as the field for device tables takes them. */
  editor.callbacks({
    chooseDevices: (/** @type {string[] | null} */ names) => {
      if (!names?.length) return window.dash_clientside.no_update;
      const limited = names.every((name) => name.includes("(")); // accelerators that leave ops to the CPU
      return `HETERO:${[...names, ...(limited ? ["CPU"] : [])].join(",")}`;
    },
  });

  document.addEventListener("click", (event) => {
    const kind = /** @type {HTMLElement | null} */ (editor.targetOf(event).closest?.("[data-upload]") ?? null)?.dataset.upload;
    if (!kind) return;
    const field = document.createElement("input");
    field.type = "file";
    field.multiple = true;
    if (kind === "folder") field.webkitdirectory = true;
    else field.accept = ".onnx,.xml,.tflite,.pb,.pdmodel,.pdiparams,.zip,.json,.data,.bin,.onnx_data,.weights";
    field.addEventListener("change", () =>
      send([...(field.files || [])].map((file) => ({ name: file.webkitRelativePath || file.name, file }))),
    );
    field.click();
  });
})(window.hetero);
