/* A second of scripts would come before the first paint otherwise: they are fetched now and run, in order, after it.
   Stands in the page itself; the scripts wait in a template. */
(() => {
  /* The page's components are made while the scripts are read. */
  window.heteroPageAddress = (path) => `/_page?path=${encodeURIComponent(path)}`;
  const path = location.pathname;
  /** @type {NonNullable<Window["heteroFirstPage"]>} */
  const first = { path, page: null, ready: Promise.resolve() };
  first.ready = fetch(window.heteroPageAddress(path))
    .then((answer) => (answer.ok ? answer.json() : null))
    .then(
      (page) => {
        first.page = page;
      },
      () => {}, // it is asked for again, and said
    );
  window.heteroFirstPage = first;

  const template = /** @type {HTMLTemplateElement} */ (document.getElementById("scripts"));
  const all = [...template.content.querySelectorAll("script")];
  let started = false;
  for (const script of all) {
    const address = script.getAttribute("src");
    if (address)
      document.head.append(Object.assign(document.createElement("link"), { rel: "preload", as: "script", href: address }));
  }

  /** Scripts of what is not on the first screen, fetched once they are needed. @type {Record<string, Promise<unknown>>} */
  const fetched = {};
  window.heteroScripts = (name) => {
    const waiting = /** @type {HTMLTemplateElement} */ (document.getElementById(`scripts-${name}`));
    fetched[name] ??= Promise.all(
      [...waiting.content.querySelectorAll("script")].map(
        (each) =>
          new Promise((done) => {
            const onerror = () => {
              delete fetched[name]; // it is asked for again
              done(undefined);
            };
            const src = each.getAttribute("src");
            document.body.append(Object.assign(document.createElement("script"), { src, onload: done, onerror }));
          }),
      ),
    );
    return fetched[name];
  };

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
        const patience = new Promise((done) => setTimeout(done, 400)); // large models take longer
        script.onload = script.onerror = () => Promise.race([first.ready, patience]).then(() => run(i + 1));
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
