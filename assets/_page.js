/* What all files of the page share: its state and small helpers. Loads first, for the underscore sorts before letters.
   The server decides what is allowed; the browser shows an edit at once and takes the server's answer when it comes. */

/* What is not here is missing until it is known, as `PageState` says. */
const state = /** @type {PageState} */ (
  /** @type {Partial<PageState>} */ ({
    brush: "select",
    index: new Map(),
    sequence: 0,
    colourMode: "device",
    selected: [],
    emphasis: null,
    far: { far: false, farther: false },
    shown: { blocks: [], before: null },
    matchNumber: 0,
    editor: null,
    messageUntil: 0,
    hoverPlace: "",
  })
);

/** @type {Hetero["set"]} */
const set = (id, props) => window.dash_clientside.set_props(id, props);
/** @type {Hetero["byId"]} */
const byId = (id) => document.getElementById(id);
/** @type {Hetero["one"]} */
const one = (selector, root = document) => {
  const found = root.querySelector(selector);
  if (!found) throw new Error(`The page has no ${selector}`);
  return /** @type {any} */ (found);
};

/** @type {Hetero["all"]} */
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

/** @type {Hetero["targetOf"]} */
const targetOf = (event) => /** @type {HTMLElement} */ (event.target);

/** @type {Hetero["around"]} */
const around = (event, selector) => targetOf(event).closest?.(selector) ?? null;

/** @param {boolean} capture @returns {Hetero["on"]} */
const listening = (capture) => (type, selector, then) => {
  const listener = (/** @type {DocumentEventMap[typeof type]} */ event) => {
    const element = around(event, selector);
    if (element) then(/** @type {any} */ (element), event);
  };
  document.addEventListener(type, listener, capture);
};

/** @type {Hetero["make"]} */
function make(type, { data, ...properties } = {}, ...children) {
  const element = Object.assign(document.createElement(type), properties);
  Object.assign(element.dataset, data);
  element.append(...children);
  return element;
}

/** @type {Hetero["swatch"]} */
const swatch = (colour) => make("span", { className: "swatch", style: `background-color: ${colour}` });

/** @type {Hetero["short"]} */
const short = (text, length) => (text.length <= length ? text : `${text.slice(0, length - 1)}…`);

/** `toLocaleString` takes 10 ms the first time. @type {Hetero["grouped"]} */
const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

/** @type {Hetero["counted"]} */
const counted = (number, noun = "op") => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

/** @type {Hetero["flash"]} */
function flash(element) {
  element?.classList.add("nothing");
  setTimeout(() => element?.classList.remove("nothing"), 400);
}

/** @type {Hetero["gridApi"]} */
function gridApi(id) {
  try {
    return window.dash_ag_grid.getApi(id);
  } catch (_error) {
    return null;
  }
}

/** @param {string} path */
function go(path) {
  if (path) window.hetero.takeAlong(path);
  /* Not by a callback's output: Dash would take the way from page to address to page for a circle. */
  if (path) setTimeout(() => set("url", { pathname: path }), 0);
}

/** @param {Shown} shown */
function expected(shown) {
  [50, 400, 1500].forEach((wait) => setTimeout(window.hetero.labelFields, wait)); // uploads load late
  window.hetero.expectGraph(shown);
  return shown;
}

/** The address whose page is shown: Dash asks for the first one once or twice, by the moment in which the address is told. */
let shownPath = "";

/* The first page was asked for before the scripts were read (`inline_start_scripts.js`). Where it has come, it is a part of Dash's
   layout, which otherwise would be drawn without it first. */
/** @type {Hetero["placeFirstPage"]} */
function placeFirstPage(layout) {
  const first = window.heteroFirstPage,
    parts = Object.fromEntries(layout.props.children.map((each) => [each.props.id, each.props]));
  parts.scheme.data = document.documentElement.dataset.scheme;
  if (!first?.page || first.path !== window.location.pathname) return;
  window.heteroFirstPage = undefined;
  shownPath = first.path;
  parts.page.children = first.page;
  expected(first.page);
}

/** What an address shows. @param {string | undefined} path */
async function pageAt(path) {
  if (!path || path === shownPath) return window.dash_clientside.no_update;
  shownPath = path;
  const early = window.heteroFirstPage;
  window.heteroFirstPage = undefined;
  let words = "The server does not answer. Start it again, and reload the page.";
  try {
    if (early?.path === path) await early.ready;
    if (early?.path === path && early.page) return expected(early.page);
    const answer = await fetch(window.heteroPageAddress(path));
    if (answer.ok) return expected(await answer.json());
    words = `The server could not make this page (${answer.status}); what it printed says why.`;
  } catch (_error) {} // it is gone
  shownPath = "";
  return { namespace: "dash_html_components", type: "Div", props: { children: words, className: "empty" } };
}

/** The tab, and a run where none is under way. @param {number} _clicks @param {boolean} running */
function openBenchmark(_clicks, running) {
  if (!running) setTimeout(() => byId("bench-start")?.click(), 0);
  return "benchmark";
}

/* The tab is not empty when it is opened for the first time, and not of a plan that has changed since. */
/** @param {string} tab @param {number | undefined} clicks */
function openCompare(tab, clicks) {
  if (tab === "compare" && clicks) setTimeout(compareIfPast, 0);
  return tab === "compare" && !clicks ? 1 : window.dash_clientside.no_update;
}

/* A button that is busy takes no clicks: what it compares is on its way. */
function compareIfPast() {
  if (document.querySelector("#compare-result > .outdated:not([hidden])")?.checkVisibility()) byId("compare-start")?.click();
}

/** Some private windows forbid storage: what is chosen holds for this page then. @type {Hetero["kept"]} */
function kept(key, storage = "localStorage") {
  try {
    return JSON.parse(window[storage].getItem(key) || "null");
  } catch (_error) {
    return null;
  }
}

/** @type {Hetero["keep"]} */
function keep(key, value, storage = "localStorage") {
  try {
    window[storage].setItem(key, JSON.stringify(value));
  } catch (_error) {} // as above
}

/** The highlighted item of a list of choices; the focus stays in the field above it. @type {Hetero["highlight"]} */
function highlight(list, field, chosen) {
  const items = [...list.children];
  for (const item of items) item.ariaSelected = String(item === items[chosen]);
  items[chosen]?.scrollIntoView({ block: "nearest" });
  field?.setAttribute("aria-activedescendant", items[chosen]?.id ?? "");
}

/** @type {Hetero["walked"]} */
function walked(key, [back, on], items, now) {
  const goal = { [back]: now - 1, [on]: now + 1, Home: 0, End: -1 }[key];
  return goal === undefined ? undefined : items.at(goal % items.length);
}

/* A card beside a node or an edge, to the right where there is room; both in coordinates of what holds the card. */
/** @type {Hetero["placeBeside"]} */
function placeBeside(card, target, [left, top], width, height) {
  const { x, y } = target.isEdge() ? target.renderedMidpoint() : target.renderedPosition(),
    away = target.isEdge() ? 12 : target.renderedWidth() / 2 + 12,
    right = left + x + away,
    at = right + card.offsetWidth < width ? right : left + x - away - card.offsetWidth;
  card.style.left = `${Math.max(8, at)}px`;
  card.style.top = `${Math.max(8, Math.min(top + y - 20, height - card.offsetHeight - 8))}px`;
}

/** @type {Hetero["callbacks"]} */
function callbacks(functions) {
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.hetero = Object.assign(window.dash_clientside.hetero || {}, functions);
}

/** @type {Hetero["provide"]} */
const provide = (functions) => {
  Object.assign(window.hetero, functions);
};

// Each script adds its functions; none calls another's before all are there.
window.hetero = /** @type {Hetero} */ ({});
provide({ placeFirstPage, one, all, targetOf, provide, callbacks, set, byId, short, grouped, flash, gridApi });
provide({ compareIfPast, counted, make, swatch, around, kept, keep, highlight, walked, placeBeside });
provide({ page: state, on: listening(false), onCapture: listening(true) });
callbacks({ go, openBenchmark, openCompare, pageAt });
