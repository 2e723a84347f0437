/* A bar at the top of the page while the server has been working on something for more than half a second:
   strokes, other sizes, comparisons, exports, tables, blocks. Jobs have bars of their own, with their share done. */
(() => {
  "use strict";

  const SOON = 500,
    bar = document.createElement("div"),
    words = document.createElement("span");
  bar.id = "waiting";
  bar.hidden = true;
  bar.setAttribute("role", "status");
  words.className = "unseen";
  bar.append(words);
  document.body.append(bar);

  let open = 0,
    timer = 0;

  function begin() {
    open += 1;
    if (open > 1) return;
    timer = window.setTimeout(() => {
      bar.hidden = false;
      words.textContent = "Working …";
    }, SOON);
  }

  function end() {
    open -= 1;
    if (open) return;
    clearTimeout(timer);
    bar.hidden = true;
    words.textContent = "";
  }

  /* Dash says nowhere that it waits for an answer, so its requests are counted here, and those for pages. */
  const ask = window.fetch;
  window.fetch = (input, options) => {
    const answer = ask(input, options);
    if (!/_dash-update-component|\/_page\?/.test(String(input instanceof Request ? input.url : input))) return answer;
    begin();
    answer.then(end, end);
    return answer;
  };
})();
