/* Where a graph is looked at first: all of it, or its top where all of it would be too small to read.
   Also stands in the page itself, for the picture that comes before the scripts. */
(() => {
  "use strict";

  const MARGIN = 24,
    TOP = 52,
    LARGEST = 1.2,
    READABLE = 0.55;

  /** @type {Window["heteroFirstView"]} */
  window.heteroFirstView = (box, width, height, first) => {
    const zoom = Math.min((width - 2 * MARGIN) / (box.x2 - box.x1), (height - 2 * MARGIN) / (box.y2 - box.y1), LARGEST);
    if (zoom >= READABLE)
      return { zoom, x: width / 2 - ((box.x1 + box.x2) / 2) * zoom, y: height / 2 - ((box.y1 + box.y2) / 2) * zoom };
    const part = Math.min(box.x2 - box.x1 + 80, Math.max(width / 0.85, 400));
    const larger = Math.min(0.75, Math.max(READABLE, width / part));
    const ends = [MARGIN - box.x1 * larger, width - MARGIN - box.x2 * larger]; // beyond these there is nothing to see
    const x = Math.max(Math.min(...ends), Math.min(Math.max(...ends), width / 2 - first * larger));
    return { zoom: larger, x, y: TOP - box.y1 * larger };
  };
})();
