/* Cytoscape asks at every frame of the screen whether there is something to draw. Where nothing moves, ten times a second do. */

const REST = 100,
  AWAKE = 500; // milliseconds after the last movement
const atNextFrame = window.requestAnimationFrame.bind(window);
/** @type {Map<FrameRequestCallback, number>} */
const resting = new Map(); // turns of the loop that wait, and their timers
/** @type {WeakMap<FrameRequestCallback, boolean>} */
const known = new WeakMap();
let moved = performance.now() + 3000; // the first picture is made without a rest

/** The loop has no name from outside; it is the function that looks at `requestedFrame`. @param {FrameRequestCallback} turn */
function isLoop(turn) {
  if (!known.has(turn)) known.set(turn, Function.prototype.toString.call(turn).includes("requestedFrame"));
  return known.get(turn);
}

/** @param {FrameRequestCallback} turn */
window.requestAnimationFrame = (turn) => {
  if (!isLoop(turn) || performance.now() - moved < AWAKE) return atNextFrame(turn);
  const timer = setTimeout(() => {
    resting.delete(turn);
    atNextFrame(turn);
  }, REST);
  resting.set(turn, timer);
  return 0;
};

function wake() {
  moved = Math.max(moved, performance.now());
  for (const [turn, timer] of resting) {
    clearTimeout(timer);
    atNextFrame(turn);
  }
  resting.clear();
}

for (const type of ["pointermove", "pointerdown", "wheel", "keydown", "touchstart"])
  window.addEventListener(type, wake, { capture: true, passive: true });

/** @type {Hetero["wakeOnRedraw"]} */
function wakeOnRedraw(cy) {
  const renderer = /** @type {any} */ (cy).renderer(),
    redraw = renderer.redraw;
  renderer.redraw = /** @param {unknown[]} options */ (...options) => {
    wake();
    return redraw.apply(renderer, options);
  };
}

editor.provide({ wakeOnRedraw });
