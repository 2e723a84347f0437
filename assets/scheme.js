/* Light or dark: chosen by a person, else as the system has it. */
((editor) => {
  "use strict";

  const page = editor.page,
    KEY = "hetero-editor-scheme",
    root = document.documentElement;

  const remembered = () => {
    try {
      return localStorage.getItem(KEY);
    } catch (_error) {
      return null; // storage is forbidden in some private windows
    }
  };

  /** @type {Hetero["toggleScheme"]} */
  function toggleScheme() {
    root.dataset.scheme = root.dataset.scheme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, root.dataset.scheme);
    } catch (_error) {} // then it holds for this page
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
    if (!remembered()) root.dataset.scheme = event.matches ? "dark" : "light";
  });

  /* The server draws charts in the scheme of the page. */
  function sendScheme() {
    const scheme = root.dataset.scheme;
    if (!scheme || scheme === page.scheme || !window.dash_clientside?.set_props || !editor.byId("page")) return;
    page.scheme = scheme;
    document.body.dataset.agThemeMode = scheme;
    setTimeout(() => {
      window.heteroMap.draw();
      editor.panesRedraw();
    }, 50); // a canvas does not follow style sheets
    try {
      editor.set("scheme", { data: scheme });
    } catch (_error) {
      page.scheme = null;
    }
  }

  new MutationObserver(sendScheme).observe(root, { attributeFilter: ["data-scheme"] });

  const waiting = setInterval(() => {
    sendScheme();
    if (page.scheme) clearInterval(waiting);
  }, 50);

  editor.provide({ toggleScheme });
})(window.hetero);
