/* Light or dark, before anything is painted; stands in the head of the page itself. */

let scheme = null;
try {
  scheme = localStorage.getItem("hetero-editor-scheme");
} catch (_error) {} // storage is forbidden in some private windows
if (scheme !== "light" && scheme !== "dark") scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
document.documentElement.dataset.scheme = scheme;
