/* The script of the tables is as large as all others together: a page fetches it when it shows the first table. Until then a
   component of ours stands in its place. */

const { createElement: h, useEffect } = React;

/** @param {{ className: string, setProps(changed: Record<string, unknown>): void }} props */
function AgGrid({ className, setProps }) {
  useEffect(() => {
    // Dash looks the component up again when one of its properties changes.
    window.heteroScripts("tables").then(() => setProps({ className: `${className} late` }));
  }, []);
  return h("div", { className: "hint wide" }, "Loading …");
}

window.dash_ag_grid = {
  AgGrid,
  getApi() {
    throw new Error("no table has been shown yet");
  },
};
