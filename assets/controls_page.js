/* What a page knows without showing it, and where it is, as Dash components; `editor/web/controls.py` names their properties.
   Dash's own are in a library that is not read before the graph is on the screen. */

const { createElement: h, useEffect, useRef } = React;

const MOVED = "hetero-moved";

const Store = () => null;

/** @param {Controls.AddressProps} props */
function Address({ pathname, setProps }) {
  const told = useRef(""); // what comes back of it is not a wish to go there
  useEffect(() => {
    const tell = () => {
      told.current = window.location.pathname;
      setProps({ pathname: told.current });
    };
    const gone = new AbortController();
    for (const event of ["popstate", MOVED]) window.addEventListener(event, tell, { signal: gone.signal });
    tell();
    return () => gone.abort();
  }, []);
  useEffect(() => {
    if (pathname && pathname !== told.current && pathname !== window.location.pathname) {
      told.current = pathname;
      window.history.pushState({}, "", pathname);
    }
  }, [pathname]);
  return null;
}

/** @param {Controls.LinkProps} props */
function Link({ id, href, className, title, children }) {
  /** @param {MouseEvent} event */
  function follow(event) {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return; // another tab or window
    event.preventDefault();
    window.history.pushState({}, "", href);
    window.dispatchEvent(new Event(MOVED));
    window.scrollTo(0, 0);
  }
  return h("a", { id: editor.idOf(id), href, className, title, onClick: follow }, children);
}

Object.assign(window.hetero_controls, { Store, Address, Link });

/* Dash asks every component of its layout what it keeps between visits, those that are drawn later too: these keep nothing. Their
   own script replaces this (`_LATER` in `editor/web/page_files.py`). */
const nothing = () => null;
window.dash_core_components ??= { Download: nothing, Graph: nothing, Upload: nothing };
