/* Where a graph is looked at first: all of it, or where that would be too small to read the first change of device, or the top.
   Also stands in the page itself, for the picture that comes before the scripts. */

const MARGIN = 24,
  TOP = 56, // below the lists
  BUTTONS = 40, // the zoom buttons
  LARGEST = 1.2,
  READABLE = 0.35, // names have 7 pixels here
  NEAR = 0.5, // names have less room in letters that are large enough below this
  CLEAR = 0.67; // and from here on their second line shows

/* What the cards over the canvas leave free at its sides. */
function sides() {
  /** @param {string} name */
  const card = (name) => {
    const element = document.getElementById(name) || document.querySelector(`.preview-${name}`);
    if (!element || getComputedStyle(element).visibility === "hidden" || window.innerWidth <= 760) return 0;
    return element.getBoundingClientRect().width + 12;
  };
  return { left: MARGIN + card("tools"), right: MARGIN + BUTTONS + card("inspector") };
}

/* What is below the lists and what they have beside them. */
function top() {
  const beside = ["missing-weights", "legend"].map((name) => document.getElementById(name));
  return Math.max(TOP, ...beside.map((each) => (each?.offsetHeight ? each.offsetTop + each.offsetHeight + 16 : 0)));
}

/* What the meaning of dashed lines leaves free above itself. */
function bottom() {
  const lines = document.getElementById("lines");
  return MARGIN + (lines ? lines.offsetHeight : 0);
}

/** @type {Window["heteroFree"]} */
window.heteroFree = (width, height) => {
  const { left, right } = sides();
  return { left, top: top(), width: Math.max(width - left - right, 80), height: height - top() - bottom() };
};

/** @type {Window["heteroWhole"]} */
window.heteroWhole = (box, width, height, largest = LARGEST) => {
  const free = window.heteroFree(width, height),
    zoom = Math.min(free.width / (box.x2 - box.x1), free.height / (box.y2 - box.y1), largest);
  const x = free.left + free.width / 2 - ((box.x1 + box.x2) / 2) * zoom,
    y = free.top + free.height / 2 - ((box.y1 + box.y2) / 2) * zoom;
  return { zoom, pan: { x, y } };
};

/** @type {Window["heteroFar"]} */
window.heteroFar = (zoom) => ({ far: zoom < CLEAR - 0.005, farther: zoom < NEAR });

/** @type {Window["heteroFirstView"]} */
window.heteroFirstView = (box, width, height, first, focus) => {
  const whole = window.heteroWhole(box, width, height);
  if (whole.zoom >= READABLE) return whole;
  const { left, right } = sides(),
    wide = Math.max(width - left - right, 80);
  const part = Math.min(box.x2 - box.x1 + 80, Math.max(wide / 0.85, 400));
  const larger = Math.min(0.75, Math.max(CLEAR, wide / part));
  const ends = [left - box.x1 * larger, width - right - box.x2 * larger]; // beyond these there is nothing to see
  const x = Math.max(Math.min(...ends), Math.min(Math.max(...ends), left + wide / 2 - (focus ? focus.x : first) * larger));
  const start = top() - box.y1 * larger,
    end = height - bottom() - box.y2 * larger;
  const y = focus ? Math.min(start, Math.max(end, height / 2 - focus.y * larger)) : start;
  return { zoom: larger, pan: { x, y } };
};
