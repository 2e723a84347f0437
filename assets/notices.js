/* Messages over the graph go away by themselves where nothing went wrong, later where they offer something. Others stay until
   they are closed or the next edit succeeds; what is said of weights that are not here, until it is closed. */

const SHORT = 8_000,
  LONG = 30_000;
let timer = 0;

function noticed() {
  const note = editor.byId("notice")?.firstElementChild;
  clearTimeout(timer);
  if (!note || note.classList.contains("bad")) return;
  const watts = note.querySelector("[data-watts-of] input");
  if (watts) {
    watts.focus();
    return;
  }
  const time = note.querySelector("[data-command]:not(.close)") ? LONG : SHORT;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (note.isConnected) editor.closeNotice();
    }, time);
  };
  note.addEventListener("pointerenter", () => clearTimeout(timer));
  note.addEventListener("pointerleave", wait);
  wait();
}

/* A rule for each, as what is closed may arrive at any time. */
const CLOSED = "hetero-editor-closed-weights",
  rules = new CSSStyleSheet();
document.adoptedStyleSheets.push(rules);

function hideClosed() {
  const closed = /** @type {string[]} */ (editor.kept(CLOSED, "sessionStorage") ?? []);
  rules.replaceSync(closed.map((models) => `[data-weights-lack="${models}"] { display: none !important; }`).join("\n"));
  return closed;
}
hideClosed();

function closeWeights() {
  const models = editor.byId("missing-weights")?.dataset.weightsLack;
  if (!models) return;
  editor.keep(CLOSED, [...hideClosed(), models], "sessionStorage");
  hideClosed();
  if (page.cy) editor.settle(page.cy); // there is more room now
  editor.byId("canvas")?.focus();
}

editor.provide({ closeWeights });
editor.callbacks({
  noticeArrived: () => {
    setTimeout(noticed, 0);
  },
});
