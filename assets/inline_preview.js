/* Fits the picture that comes before the page's scripts into the window; stands in the page itself. */
(() => {
  function fit() {
    const preview = document.getElementById("preview"),
      svg = preview?.querySelector("svg");
    if (!preview || !svg) return;
    try {
      const sizes = JSON.parse(localStorage.getItem("hetero-editor-panels") || "{}");
      for (const name of ["tools", "inspector", "dock"])
        if (sizes[name]) preview.style.setProperty(`--${name}`, `${sizes[name]}px`);
    } catch (_error) {} // as above
    const { x0, x1, y0, y1, first } = svg.dataset;
    const box = { x1: Number(x0), x2: Number(x1), y1: Number(y0), y2: Number(y1) };
    const { focusX, focusY } = svg.dataset,
      focus = focusX === undefined ? null : { x: Number(focusX), y: Number(focusY) };
    const { zoom, pan } = window.heteroFirstView(box, svg.clientWidth, svg.clientHeight, Number(first), focus);
    for (const [name, on] of Object.entries(window.heteroFar(zoom))) svg.classList.toggle(name, on);
    svg.firstElementChild?.setAttribute("transform", `translate(${pan.x} ${pan.y}) scale(${zoom})`);
  }

  const place = document.getElementById("preview");
  if (!place) return;
  if (place.dataset.wait === undefined) {
    fit();
    return;
  }
  /* The model is still being read: the server answers when it can draw it. */
  fetch("/_preview")
    .then((answer) => (answer.ok ? answer.text() : ""))
    .then(
      (html) => {
        if (html && !window.heteroCy && document.getElementById("preview")) {
          place.insertAdjacentHTML("afterend", html);
          place.remove();
          fit();
          requestAnimationFrame(() => setTimeout(() => place.dispatchEvent(new Event("seen")), 0));
        } else place.remove();
      },
      () => place.remove(),
    );
})();
