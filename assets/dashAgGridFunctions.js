/* Formatters and cells of the tables. Names are looked up by dash-ag-grid. */

window.dashAgGridFunctions ??= {};
window.dashAgGridComponentFunctions ??= {};
const functions = window.dashAgGridFunctions,
  components = window.dashAgGridComponentFunctions;

functions.heteroBytes = (number) => {
  let value = number;
  if (value === null || value === undefined) return "";
  if (value < 0) return "?";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (Number(value.toPrecision(4)) >= 1000 && i < units.length - 1) {
    value /= 1000;
    i += 1;
  }
  return `${i ? Number(value.toPrecision(4)) : value} ${units[i]}`;
};

/** Two digits of a figure that rests on assumed speeds, as `roughly` of editor/text.py. @param {number} value */
const roughly = (value) => Number(value.toPrecision(2));

functions.heteroSeconds = (value, rough = false) => {
  if (value === null || value === undefined) return "";
  if (value > 0 && value < 1e-9) return "< 0.001 µs";
  if (rough && value) return `about ${functions.heteroSeconds(roughly(value))}`;
  if (Number((value * 1e6).toPrecision(3)) < 1000) return `${Number((value * 1e6).toPrecision(3))} µs`;
  if (Number((value * 1e3).toPrecision(3)) < 1000) return `${Number((value * 1e3).toPrecision(3))} ms`;
  return `${Number(value.toPrecision(3))} s`;
};

/** As `percent` of editor/text.py: a share that is not nothing is not called 0. @param {number} share */
const percent = (share) => (share > 0 && share < 0.005 ? "< 1 %" : `${(100 * share).toFixed(0)} %`);

editor.provide({
  humanBytes: /** @type {Hetero["humanBytes"]} */ (functions.heteroBytes),
  percent,
  humanSeconds: /** @type {Hetero["humanSeconds"]} */ (functions.heteroSeconds),
});

functions.heteroPercent = (value) => (value === null || value === undefined ? "" : `${(100 * value).toFixed(1)} %`);

/** @param {{ withParams(params: Record<string, unknown>): unknown }} theme */
window.dashAgGridFunctions.heteroTheme = (theme) =>
  theme.withParams({
    fontFamily: "inherit",
    fontSize: 12,
    headerFontSize: 12,
    spacing: 5,
    wrapperBorder: false,
    wrapperBorderRadius: 0,
    backgroundColor: "var(--panel)",
    foregroundColor: "var(--ink)",
    headerBackgroundColor: "var(--raised)",
    borderColor: "var(--line)",
    accentColor: "var(--accent)",
    browserColorScheme: "inherit",
  });

/* Tab leaves a table, as it does everywhere else; arrow keys move inside it. */
functions.heteroLeaveGrid = () => false;

components.DeviceCell = (props) => {
  const fill = window.heteroColours?.[props.value];
  const swatch = fill && React.createElement("span", { className: "swatch", style: { backgroundColor: fill } });
  return React.createElement("span", { className: "device-cell" }, swatch, props.value);
};
