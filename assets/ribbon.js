/* The whole run in one line above the graph: subgraphs in the order in which they run, coloured by device. */

const { make } = editor,
  LANE = 15,
  GAP = 2,
  DIGIT = 14, // narrower parts have no room for the number of their device
  LEAST = 1,
  NARROW = 4, // parts that a pointer finds from beside them
  WIDE = 12,
  REACH = 2,
  CANVAS = "#ribbon-canvas",
  resized = new ResizeObserver(draw);

/** @type {Messages.Ribbon | null} */
let ribbon = null;
/** @type {{ part: Messages.RibbonPart; x: number; width: number; lane: number }[]} */
let places = [];
/** @type {{ from: number; to: number } | null} */
let drag = null;
let by = "seconds";

const canvas = () => /** @type {HTMLCanvasElement | null} */ (document.querySelector(CANVAS));

/** @param {Messages.RibbonPart} part */
const weight = (part) => (by === "ops" ? editor.opsIn(part.ops).length : by === "bytes" ? part.bytes : part.seconds);

/** @param {(part: Messages.RibbonPart) => number} figure */
const sumOf = (figure) => (ribbon?.parts ?? []).reduce((sum, part) => sum + figure(part), 0);

/* Parts after which the device is another one. */
const changes = () =>
  ribbon ? ribbon.parts.flatMap((part, i, all) => (i && all[i - 1].device !== part.device ? [i] : [])) : [];

/** @param {HTMLCanvasElement} element */
function layOut(element) {
  if (!ribbon) return;
  const total = sumOf(weight),
    room = element.clientWidth,
    used = [...new Set(ribbon.parts.map((part) => part.device))].sort((a, b) => a - b);
  const widths = ribbon.parts.map((part) => Math.max(total ? (weight(part) / total) * room : room / places.length, LEAST));
  const scale = room / widths.reduce((sum, width) => sum + width, 0);
  let x = 0;
  places = ribbon.parts.map((part, i) => {
    const place = { part, x, width: widths[i] * scale, lane: ribbon?.measured ? used.indexOf(part.device) : 0 };
    x += place.width;
    return place;
  });
  const lanes = ribbon.measured ? Math.min(used.length, 4) : 1;
  element.style.height = `${lanes * LANE + GAP + 7}px`;
}

function draw() {
  const element = canvas(),
    view = page.view;
  if (!element || !ribbon || !view || !element.clientWidth) return;
  layOut(element);
  const ratio = window.devicePixelRatio || 1,
    pen = element.getContext("2d"),
    style = getComputedStyle(document.body);
  if (!pen) return;
  element.width = element.clientWidth * ratio;
  element.height = element.clientHeight * ratio;
  pen.scale(ratio, ratio);
  const chosen = new Set(editor.selectedOps());
  for (const place of places) {
    const device = view.devices[place.part.device],
      y = 7 + Math.min(place.lane, 3) * LANE,
      gap = place.width > 4 ? 1 : 0;
    pen.globalAlpha = page.emphasis && !editor.opsIn(place.part.ops).some((op) => page.emphasis?.has(op)) ? 0.22 : 1;
    pen.fillStyle = device ? device.fill : style.getPropertyValue("--edge");
    pen.fillRect(place.x, y, Math.max(place.width - gap, LEAST), LANE - GAP);
    if (place.width > DIGIT && device) {
      pen.fillStyle = device.ink;
      pen.font = "600 10px Inter, system-ui, sans-serif";
      pen.textBaseline = "middle";
      pen.fillText(editor.signs([place.part.device]), place.x + 4, y + (LANE - GAP) / 2 + 0.5);
    }
    if (place.part.moved > 0) {
      pen.fillStyle = style.getPropertyValue("--soft");
      pen.fillRect(place.x - 0.5, 0, 1.5, 6);
    }
    if (chosen.size && editor.opsIn(place.part.ops).some((op) => chosen.has(op))) {
      pen.strokeStyle = style.getPropertyValue("--ink");
      pen.lineWidth = 1.5;
      pen.strokeRect(place.x + 0.75, y + 0.75, Math.max(place.width - gap - 1.5, 1), LANE - GAP - 1.5);
    }
  }
  pen.globalAlpha = 1;
  if (drag) {
    pen.fillStyle = "rgba(120, 140, 160, 0.35)";
    pen.fillRect(Math.min(drag.from, drag.to), 0, Math.abs(drag.to - drag.from), element.clientHeight);
  }
}

/** @param {PointerEvent | MouseEvent} event */
const xOf = (event) => event.clientX - (canvas()?.getBoundingClientRect().left ?? 0);

/** The part there; one beside it that is too narrow to be hit goes before a wide one. @param {number} x */
function placeAt(x) {
  const within = (/** @type {number} */ more) => (/** @type {typeof places[0]} */ place) =>
    x >= place.x - more && x < place.x + place.width + more;
  const at = places.find(within(0)) ?? places[places.length - 1];
  return (at?.width > WIDE && places.find((place) => place.width < NARROW && within(REACH)(place))) || at;
}

/** What was dragged over: of a subgraph that is only touched, the share of its ops. @param {number} from @param {number} to */
function opsBetween(from, to) {
  return places.flatMap((place) => {
    const ops = editor.opsIn(place.part.ops),
      share = (/** @type {number} */ x) => Math.min(Math.max((x - place.x) / place.width, 0), 1) * ops.length;
    return ops.slice(Math.floor(share(from)), Math.ceil(share(to)));
  });
}

/** @param {HTMLElement} _element @param {PointerEvent} event */
function release(_element, event) {
  if (!drag) return;
  const { from, to } = drag;
  drag = null;
  const at = placeAt(xOf(event));
  if (Math.abs(to - from) >= 4) editor.selectOps(opsBetween(Math.min(from, to), Math.max(from, to)));
  else if (at) editor.showPart(at.part.part);
  draw();
}

/** @type {Hetero["stepChange"]} */
function stepChange(step) {
  const found = changes();
  if (!ribbon || !found.length) {
    editor.say(oneDevice());
    return;
  }
  const chosen = new Set(editor.selectedOps()),
    now = ribbon.parts.findIndex((part) => editor.opsIn(part.ops).some((op) => chosen.has(op)));
  const after = found.findIndex((i) => i > now),
    before = found.filter((i) => i < now).length - 1;
  const next = now < 0 ? (step > 0 ? 0 : found.length - 1) : step > 0 ? after : before;
  if (next < 0) {
    editor.say(step > 0 ? "That was the last device switch." : "That was the first device switch.");
    return;
  }
  const part = ribbon.parts[found[next]],
    names = [ribbon.parts[found[next] - 1].device, part.device].map((d) => page.view?.devices[d]?.name);
  editor.goTo(`op${editor.opsIn(part.ops)[0]}`);
  editor.say(`Switch ${next + 1} of ${found.length}: ${names.join(" → ")}`);
}

function oneDevice() {
  const first = ribbon?.parts[0],
    name = first && page.view?.devices[first.device]?.name;
  if (!name) return "The model has no ops.";
  const count = sumOf((part) => editor.opsIn(part.ops).length),
    all = count === 1 ? `The one op runs on ${name}` : `All ${editor.grouped(count)} ops run on ${name}`;
  if (ribbon?.off) return `${all}, ${ribbon.off}:`;
  return page.view.devices.length > 1 ? `${all}. Paint some to move them.` : `${all}. Add a device to place ops on it.`;
}

const whyLink = () => make("button", { className: "link", onclick: () => editor.one("#tabs-tab-fallbacks").click() }, "why");

/** A time, in rough figures where it rests on assumed speeds, as `in_words` of editor/text.py.
    @param {number} seconds */
const inWords = (seconds) => editor.humanSeconds(seconds, ribbon?.rough);

/* What the line says in words: also for those who do not see it. */
function describe() {
  const text = editor.byId("ribbon-text"),
    element = canvas();
  if (!text || !ribbon || !element) return;
  const seconds = sumOf((part) => part.seconds),
    count = changes().length;
  const named = { estimate: "estimated", prediction: "predicted" }[ribbon.kind],
    total = inWords(seconds),
    at = ribbon.at && ` ${ribbon.at}`,
    time = (named ? `${named} ${total} in ops` : `measured ${total} in subgraphs`) + at,
    source = named && count ? `, ${ribbon.source}` : "";
  const words = count ? `${count} device ${count === 1 ? "switch" : "switches"} · ${time}` : oneDevice();
  text.replaceChildren(make("span", { title: words + source }, words));
  if (!count && ribbon.off) text.append(" ", whyLink());
  element.setAttribute("aria-label", `The run in order: ${editor.counted(ribbon.parts.length, "subgraph")}. ${words}`);
}

/* The buttons that go from one device switch to the next, where there is one. */
function offerSteps() {
  const none = !changes().length;
  for (const button of /** @type {HTMLButtonElement[]} */ (editor.all(".ribbon-words [data-command$=-change]"))) {
    button.dataset.title ??= button.title;
    button.title = none ? "This plan has no device switch" : button.dataset.title;
    button.disabled = none;
  }
}

/** @type {Hetero["showRibbon"]} */
function showRibbon(data) {
  ribbon = data;
  hush();
  describe();
  offerSteps();
  draw();
  const element = canvas();
  if (element) resized.observe(element);
}

/** What the pointer is on: as the card beside a node, below the line. @param {MouseEvent} event */
function tell(event) {
  const element = canvas(),
    card = editor.byId("ribbon-hover"),
    place = placeAt(xOf(event));
  if (!element || !card || !place || !ribbon) return;
  const { part } = place,
    device = page.view?.devices[part.device],
    ops = editor.opsIn(part.ops).length,
    total = sumOf((each) => each.seconds),
    share = total && `${editor.percent(part.seconds / total)} of the time in ${ribbon.measured ? "subgraphs" : "ops"}`,
    figures = [share, `${ribbon.kind} ${ribbon.source}`.trim()].filter((each) => each !== 0);
  card.replaceChildren(
    make("b", {}, `Subgraph ${part.part}`),
    make("div", { className: "soft" }, editor.counted(ops)),
    make(
      "div",
      { className: "hover-row" },
      editor.swatch(device?.fill ?? ""),
      make("b", { className: "hover-device" }, device?.name ?? ""),
      make("span", { className: "value" }, inWords(part.seconds)),
    ),
    make("div", { className: "soft" }, figures.join(" · ")),
    part.arrives ? make("div", {}, `Transfer before it: ${part.arrives}`) : "",
  );
  card.hidden = false;
  const line = element.getBoundingClientRect(),
    left = line.left + place.x + place.width / 2 - card.offsetWidth / 2;
  card.style.left = `${Math.max(8, Math.min(left, window.innerWidth - card.offsetWidth - 8))}px`;
  card.style.top = `${line.bottom + 6}px`;
}

function hush() {
  const card = editor.byId("ribbon-hover");
  if (card) card.hidden = true;
}

editor.on("pointerdown", CANVAS, (element, event) => {
  element.setPointerCapture(event.pointerId);
  drag = { from: xOf(event), to: xOf(event) };
  hush();
});
editor.on("pointerout", CANVAS, hush);
editor.on("pointermove", CANVAS, (_element, event) => {
  if (drag) {
    drag.to = xOf(event);
    draw();
  } else tell(event);
});
editor.on("pointerup", CANVAS, release);

/** @param {string} what */
function ribbonBy(what) {
  by = what || by;
  draw();
}

editor.provide({ stepChange, showRibbon, drawRibbon: draw });
editor.callbacks({ ribbonBy });
