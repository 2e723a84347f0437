/* Tables fit their columns into the window, and remember which ones are shown, how wide and in which order.
   Their script is as large as all others together: a page fetches it when it shows the first table, and has a component of ours
   in its place until then. */

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

const KEY = "hetero-editor-table-",
  /** @type {Map<string, GridApi>} */
  grids = new Map();

/** @param {string} id @returns {ColumnState[] | null} */
const remembered = (id) => editor.kept(KEY + id);

/** @param {string} id @param {GridApi} api */
function remember(id, api) {
  const state = api.getColumnState().map(({ colId, width, hide }) => ({ colId, width, hide }));
  editor.keep(KEY + id, state);
}

/** Once the table has a width. @param {string} id @param {GridApi} api @param {number} [tries] */
function fit(id, api, tries = 60) {
  if (editor.byId(id)?.clientWidth) requestAnimationFrame(() => api.sizeColumnsToFit());
  else if (tries) requestAnimationFrame(() => fit(id, api, tries - 1));
}

/* A table is there, after its tab was opened: its own event of that comes before anyone can listen. */
/** @param {string} id @param {number} [tries] */
function begin(id, tries = 200) {
  const api = editor.gridApi(id);
  if (!api) {
    if (tries) setTimeout(() => begin(id, tries - 1), 50);
    return;
  }
  grids.set(id, api);
  const state = remembered(id);
  if (state) api.applyColumnState({ state: state.map((column) => ({ ...column, flex: null })), applyOrder: true });
  else fit(id, api);
}

new MutationObserver(() => {
  editor.all("details[data-columns]:not([data-watched])").forEach((box) => {
    box.dataset.watched = "yes";
    begin(box.dataset.columns || "");
  });
}).observe(document.body, { childList: true, subtree: true });

/* A person changed the columns; what the table does by itself is not kept. */
window.dashAgGridFunctions.heteroTableChanged = (
  /** @type {{ api: GridApi, source: string, finished?: boolean }} */ { api, source, finished },
  /** @type {string} */ id,
) => {
  if (finished !== false && source.startsWith("ui")) remember(id, api);
};

/* The window or a panel has another size. */
window.dashAgGridFunctions.heteroTableResized = (/** @type {{ api: GridApi }} */ { api }, /** @type {string} */ id) => {
  if (!remembered(id)) fit(id, api);
};

/** @param {HTMLElement} list @param {string} id @param {GridApi} api */
function fill(list, id, api) {
  list.textContent = "";
  for (const column of api.getColumns()) {
    const onchange = () => {
      api.setColumnsVisible([column.getColId()], box.checked);
      remember(id, api);
    };
    const box = editor.make("input", { type: "checkbox", checked: column.isVisible(), onchange });
    list.append(editor.make("label", {}, box, ` ${column.getColDef().headerName}`));
  }
  const onclick = () => {
    api.resetColumnState();
    localStorage.removeItem(KEY + id);
    fit(id, api);
    fill(list, id, api);
  };
  list.append(editor.make("button", { className: "tool small", onclick }, "As at first"));
}

editor.onCapture("toggle", "details[data-columns]", (/** @type {HTMLDetailsElement} */ box) => {
  const id = box.dataset.columns ?? "",
    api = grids.get(id);
  if (api && box.open) fill(editor.one(".columns-list", box), id, api);
});
