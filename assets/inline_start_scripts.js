/* A second of scripts would come before the first paint otherwise: they are fetched now and run, in order, after it.
   Stands in the page itself; the scripts wait in a template. */
(() => {
  "use strict";

  /* The page's components are made while the scripts are read. */
  window.heteroPageAddress = (path) => `/_page?path=${encodeURIComponent(path)}`;
  const path = location.pathname;
  window.heteroFirstPage = { path, answer: fetch(window.heteroPageAddress(path)).catch(() => null) };

  const template = /** @type {HTMLTemplateElement} */ (document.getElementById("scripts"));
  const all = [...template.content.querySelectorAll("script")];
  let started = false;
  for (const script of all) {
    const address = script.getAttribute("src");
    if (address)
      document.head.append(Object.assign(document.createElement("link"), { rel: "preload", as: "script", href: address }));
  }

  /** @param {number} from */
  function run(from) {
    for (let i = from; i < all.length; i++) {
      const script = document.createElement("script");
      for (const attribute of all[i].attributes) script.setAttribute(attribute.name, attribute.value);
      script.text = all[i].text;
      script.async = false;
      const beforeInline = i + 1 < all.length && !all[i + 1].hasAttribute("src"); // which needs all before it
      document.body.append(script);
      if (beforeInline && script.src) {
        script.onload = script.onerror = () => run(i + 1);
        return;
      }
    }
  }

  function start() {
    if (started) return;
    started = true;
    run(0);
  }

  const preview = document.getElementById("preview");
  if (document.hidden || !preview) {
    start();
    return;
  }
  if (preview.querySelector("svg")) requestAnimationFrame(() => setTimeout(start, 0));
  else preview.addEventListener("seen", start); // the picture is on its way
  setTimeout(start, 500);
})();
