/* Benchmarks, profiles and tunings: started and ended here, and followed by the events that the server sends. */

const CHART_EVERY = 2000; // a browser without a GPU takes 0.3 s to draw one, which disturbs the benchmark
/** @type {EventSource | null} */
let events = null;
let drawn = 0;

/** @param {boolean} running */
function setButtons(running) {
  if (!running) editor.set("bench-open", { children: "Benchmark", className: null });
  const disabled = running || Boolean(editor.byId("missing-weights"));
  for (const id of ["bench-start", "bench-profile", "bench-tune", "bench-accuracy"]) editor.set(id, { disabled });
  editor.set("bench-cancel", { disabled: !running, busy: false });
}

/** @param {unknown} error @param {string} title */
function failed(error, title) {
  const { message } = /** @type {Error} */ (error);
  editor.set("bench-problem", { children: editor.component("Alert", { title, children: message }) });
}

/* Follows the run of the document to its end: one that was started here or in another tab, or before the page was loaded. */
function followRun() {
  events?.close();
  if (!page.view) return;
  const { document } = page.view,
    source = new EventSource(`/d/${encodeURIComponent(document)}/runs/events`);
  events = source;
  drawn = 0;
  let begun = false;
  source.addEventListener("message", (message) => {
    if (page.view.document !== document) {
      source.close();
      return;
    }
    /** @type {Messages.RunEvent} */
    const event = JSON.parse(message.data);
    if (event.done) source.close();
    if (event.run) show(event, begun);
    begun = true;
  });
  source.addEventListener("error", () => source.close()); // the server is gone: what is asked when it is back follows again
}

/** @param {Messages.RunEvent} event @param {boolean} begun whether the run was seen before its end */
function show(event, begun) {
  const { run, done, samples } = event;
  editor.set("bench-text", { children: event.text });
  editor.set("bench-progress", { value: event.share === null ? null : (100 * event.share).toFixed(1), hidden: done });
  setButtons(!done);
  if (!done) editor.set("bench-open", { children: event.label, className: "running" });
  if (!begun && !done)
    editor.set("run", { data: { run, done, samples: 0 } }); // an empty chart, which reads its library
  else if (done || (samples && Date.now() - drawn > CHART_EVERY)) {
    drawn = Date.now();
    editor.set("run", { data: { run, done, samples } });
  }
  if (!done) return;
  if (begun)
    editor.edit({ do: "show" }); // figures are measured now, and a run that fails may teach what devices cannot do
  else editor.ask("ribbon").then(showEnded, editor.complain);
}

/**
 * What a run that had ended measured; where it ended after the page was made, the headline follows.
 * @param {Messages.Ribbon} ribbon
 */
function showEnded(ribbon) {
  editor.showRibbon(ribbon);
  if (ribbon.measured && !document.querySelector("#verdict [data-kind=measurement]")) editor.edit({ do: "show" });
}

/**
 * @param {unknown} _start
 * @param {unknown} _profile
 * @param {unknown} _tune
 * @param {unknown} _accuracy
 * @param {Messages.RunRequest["seconds"]} seconds
 * @param {Messages.RunRequest["mode"]} mode
 * @param {Messages.RunRequest["requests"]} requests
 * @param {boolean} memory
 * @param {Messages.RunRequest["prompt"]} prompt
 * @param {Messages.RunRequest["new"]} tokens
 */
async function startRun(_start, _profile, _tune, _accuracy, seconds, mode, requests, memory, prompt, tokens) {
  const pressed = window.dash_clientside.callback_context.triggered.find(({ value }) => value);
  if (!pressed) return;
  const generates = /** @type {string | undefined} */ (mode) === "tokens",
    kind = /** @type {const} */ ({ "bench-profile": "profile", "bench-tune": "tune", "bench-accuracy": "accuracy" })[
      pressed.prop_id.split(".")[0]
    ];
  if (generates && !kind) {
    // the phases are placed for the lengths that were measured last
    editor.set("phases-prompt-length", { value: prompt });
    editor.set("phases-new-length", { value: tokens });
  }
  const given = { seconds, requests, memory: Boolean(memory), prompt, new: tokens },
    what = { kind: kind ?? (generates ? "tokens" : "benchmark"), mode: generates ? "latency" : mode || "latency" };
  await begin(/** @type {Messages.RunRequest} */ ({ ...given, ...what }));
}

/** @type {Hetero["measure"]} */
function measure(request) {
  const { seconds, mode, requests, memory } = request;
  editor.set("bench-seconds", { value: seconds });
  editor.set("bench-mode", { value: mode });
  editor.set("bench-requests", { value: requests });
  editor.set("bench-memory", { checked: memory });
  begin(request);
}

/** @param {Messages.RunRequest} request */
async function begin(request) {
  editor.set("bench-problem", { children: null });
  editor.closeNotice(); // what was refused before is over
  setButtons(true);
  try {
    await editor.ask("runs", request);
  } catch (error) {
    setButtons(false);
    failed(error, "The benchmark could not finish");
  }
  followRun();
}

/** @param {number | undefined} clicks */
function cancelRun(clicks) {
  if (!clicks) return;
  editor.set("bench-cancel", { busy: true });
  editor.ask("runs/cancel", {}).catch(editor.complain);
}

/** @param {number | undefined} clicks */
async function calibrate(clicks) {
  if (!clicks) return;
  try {
    const { text } = await editor.ask("runs/calibrate", {});
    editor.edit({ do: "show" });
    editor.set("bench-text", { children: text });
    editor.set("bench-problem", { children: null });
  } catch (error) {
    failed(error, "Nothing was calibrated");
  }
}

editor.provide({ followRun, measure });
/** Whether the fields of requests in flight and of memory have no part in a mode. @param {string} mode */
const withMode = (mode) => [mode !== "throughput", mode === "tokens", mode !== "tokens", mode !== "tokens"];

editor.callbacks({ startRun, cancelRun, calibrate, withMode });
