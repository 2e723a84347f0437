/* Light or dark: chosen by a person, else as the system has it. */

const KEY = "hetero-editor-scheme",
  root = document.documentElement;

const remembered = () => {
  try {
    return localStorage.getItem(KEY);
  } catch (_error) {
    return null; // storage is forbidden in some private windows
  }
};

function toggleScheme() {
  root.dataset.scheme = root.dataset.scheme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(KEY, root.dataset.scheme);
  } catch (_error) {} // then it holds for this page
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
  if (!remembered()) root.dataset.scheme = event.matches ? "dark" : "light";
});

const schemeTables = () => {
  document.body.dataset.agThemeMode = root.dataset.scheme;
};

/* The server draws charts in the scheme of the page; Dash has the first one from the beginning (`placeFirstPage`). */
function sendScheme() {
  schemeTables();
  if (!editor.byId("page")) return;
  editor.set("scheme", { data: root.dataset.scheme });
  setTimeout(() => {
    window.heteroMap.draw();
    editor.panesRestyle();
  }, 50); // a canvas does not follow style sheets
}

new MutationObserver(sendScheme).observe(root, { attributeFilter: ["data-scheme"] });
schemeTables();

editor.provide({ toggleScheme });
