/* Selection, and the links between graph, tables and inspector. */

const READABLE = 0.4;

/** @type {Hetero["opId"]} */
const opId = (id) => (id.startsWith("op") ? Number(id.slice(2)) : -1);
const known = /** @type {Map<string, number[]>} */ (new Map()),
  MOST_KNOWN = 5000;

/** The ops that a node stands for; a block has them as ranges. @type {Hetero["opsOf"]} */
function opsOf(node) {
  const text = node.data("ops");
  return text === undefined ? [node.data("op")] : opsIn(text);
}

/** @type {Hetero["opsIn"]} */
function opsIn(text) {
  if (!text) return [];
  let ops = known.get(text);
  if (!ops) {
    ops = [];
    for (const part of text.split(" ")) {
      const [first, last = first] = part.split("-").map(Number);
      for (let op = first; op <= last; op += 1) ops.push(op);
    }
    if (known.size > MOST_KNOWN) known.clear();
    known.set(text, ops);
  }
  return ops;
}

/** @type {Hetero["rangesOf"]} */
function rangesOf(ops) {
  /** @type {string[]} */
  const ranges = [];
  ops.forEach((op, i) => {
    if (i && op === ops[i - 1] + 1) ranges[ranges.length - 1] = `${ranges[ranges.length - 1].split("-")[0]}-${op}`;
    else ranges.push(String(op));
  });
  return ranges.join(",");
}

/** The node that shows an op: its own, or the block that it is in. @param {number} op */
function nodeOf(op) {
  const own = page.cy.getElementById(`op${op}`);
  if (own.nonempty()) return own;
  if (!page.groupOf) {
    /** @type {Map<number, string>} */
    const groups = new Map();
    page.groupOf = groups;
    page.cy.nodes(".group").forEach((node) => opsOf(node).forEach((op) => groups.set(op, node.id())));
  }
  return page.cy.getElementById(page.groupOf.get(op) || "");
}

/** @type {Hetero["nodesOf"]} */
function nodesOf(ops) {
  let found = page.cy.collection();
  for (const id of new Set(ops.map((op) => nodeOf(op).id()))) if (id) found = found.union(page.cy.getElementById(id));
  return found;
}

/* What is selected: the ops that a command chose, or all ops of the nodes that a person clicked. */
const selectedOps = () => page.chosen || (page.cy ? page.cy.nodes("node.op:selected").toArray().flatMap(opsOf) : []);

/* After nodes came and went, the same ops are selected as before. */
function reselect() {
  const ops = page.chosen || page.selected || [];
  if (!ops.length) return;
  selectNodes(ops);
  page.chosen = ops;
}

/* Selects the nodes of some ops. A closed block of which they are only a part looks different; returns whether there is one. */
/** @param {number[]} ops */
function selectNodes(ops) {
  const wanted = new Set(ops),
    nodes = nodesOf(ops),
    inPart = nodes.filter((n) => n.hasClass("group") && opsOf(n).some((op) => !wanted.has(op)));
  page.quiet = true; // Cytoscape tells at once; a click that follows is meant
  page.cy.elements(":selected").unselect();
  page.cy.nodes(".part").removeClass("part");
  nodes.select();
  inPart.addClass("part");
  page.quiet = false;
  return inPart.nonempty();
}

function selectNothing() {
  page.chosen = null;
  page.selected = [];
  for (const table of ["subgraphs", "transfers"]) editor.gridApi(table)?.deselectAll();
  if (page.cy) page.cy.elements(":selected").unselect();
  editor.set("selection", { data: { ops: [] } });
}
let pending = 0;

function reportSelection() {
  if (page.quiet) return;
  clearTimeout(pending);
  page.chosen = null;
  page.cy.nodes(".part").removeClass("part"); // what is clicked is meant as a whole
  pending = setTimeout(() => {
    const ops = page.cy.nodes(".op:selected").toArray().flatMap(opsOf),
      terminal = page.cy.nodes(".terminal:selected");
    page.selected = ops;
    const tensors = terminal.empty() ? [] : (terminal[0].data("tensors") ?? [terminal[0].data("tensor")]);
    editor.set("selection", { data: ops.length || !tensors.length ? { ops } : { ops, tensors } });
  }, 25);
}

/* What an edit selects, in place of the click that asked for it: reported a moment later, that would be selected alone. */
/** @type {Hetero["choose"]} */
function choose(selection) {
  clearTimeout(pending);
  editor.set("selection", { data: selection });
}

/** @type {Hetero["selectOps"]} */
const selectOps = (ops, reveal = false) => editor.set("selection", { data: { ops, select: true, count: true, reveal } });

/** @type {Hetero["selectDevice"]} */
const selectDevice = (device) => selectOps(page.view.ops.filter((_op, i) => page.view.device[i] === device));

/** The selection in words, for those who do not see it. @param {number[]} ops */
function tell(ops) {
  const live = editor.byId("live"),
    view = page.view;
  if (!live || !view) return;
  const [op] = ops,
    device = page.index.has(op) ? view.devices[view.device[page.index.get(op)]].name : "no device",
    name = page.cy && ops.length === 1 ? nodeOf(op).data("name") : undefined;
  if (!ops.length) live.textContent = "";
  else if (ops.length > 1) live.textContent = `${editor.grouped(ops.length)} ops selected`;
  else live.textContent = `${name ?? "op"} on ${device} selected`;
}

/** @param {Messages.Selection | null} selection */
function select(selection) {
  if (!selection) return;
  const ops = selection.ops || [];
  editor.showLink(ops);
  setTimeout(editor.drawRibbon, 0);
  tell(ops);
  if (selection.select && page.cy) {
    clearTimeout(pending); // of the click that asked for this
    const inPart = selectNodes(ops);
    page.chosen = page.selected = ops;
    if (ops.length > 1 || selection.count) {
      const words = `${editor.counted(ops.length)} selected`;
      editor.say(inPart ? `${words}; blocks with a dashed border only in part.` : `${words}.`);
      const nodes = nodesOf(ops);
      if (selection.reveal && ops.length > 1 && nodes.nonempty()) editor.bring(nodes.boundingBox());
      else showSome(nodes);
    }
  }
  if (selection.message) editor.say(selection.message);
  if (selection.missing) editor.flash(editor.byId("find"));
  if (selection.reveal && ops.length && page.wanted === undefined) {
    page.wanted = ops[0];
    setTimeout(() => bringWanted(40), 250);
  }
  showRow(ops);
}

/** What was looked for, once it is drawn: blocks that are opened for it take a moment to come. @param {number} tries */
function bringWanted(tries) {
  const op = page.wanted;
  if (op === undefined) return; // redrawn has brought it
  if (!selectedOps().includes(op)) {
    page.wanted = undefined; // something else is selected by now, or nothing
    return;
  }
  const coming = page.detail?.mode === "blocks" && page.cy.getElementById(`op${op}`).empty();
  if (coming && tries) {
    setTimeout(() => bringWanted(tries - 1), 100);
    return;
  }
  page.wanted = undefined;
  arrive(op);
}

/** At what was looked for: selects it, unless several ops are selected, which stay so. @type {Hetero["arrive"]} */
function arrive(op) {
  const nodes = nodesOf([op]);
  if (selectedOps().length > 1) showSome(nodes);
  else if (nodes.nonempty()) goTo(nodes[0].id());
}

/** The row of the subgraph that the first of some ops is in. @param {number[]} ops */
function showRow(ops) {
  const grid = editor.gridApi("subgraphs");
  if (!grid || !page.view || !ops.length) return;
  const row = grid.getRowNode(String(page.view.part[page.index.get(ops[0])]));
  if (row && !row.isSelected()) {
    row.setSelected(true, true);
    grid.ensureNodeVisible(row);
  }
}

/** Nothing of a selection in sight: brings its first node. @param {CyNodes} nodes */
function showSome(nodes) {
  const { x1, x2, y1, y2 } = page.cy.extent(),
    isWithin = (/** @type {Point} */ { x, y }) => x > x1 && x < x2 && y > y1 && y < y2,
    isSeen = nodes.some((n) => isWithin(/** @type {CyNode} */ (n).position()));
  if (!isSeen && nodes.nonempty()) editor.bring(nodes.first().boundingBox());
}

function unmark() {
  if (!page.cy) return;
  page.cy.batch(() => page.cy.elements(".mark, .dim").removeClass("mark dim"));
}

/* Only clicks count: a row may also become selected because the table or the graph changed. */
/** @param {string} table @param {{ rowId: string } | null} cell */
function clicked(table, cell) {
  return cell && page.cy ? editor.gridApi(table)?.getRowNode(cell.rowId)?.data : null;
}

/** @param {{ rowId: string } | null} cell */
function subgraphsRow(cell) {
  const row = clicked("subgraphs", cell);
  if (row) showPart(Number(row.id));
}

/** Selects a subgraph, brings it into view and dims the rest. @param {number} part */
function showPart(part) {
  if (!page.cy) return;
  editor.set("selection", { data: { ops: page.view.ops.filter((_op, i) => page.view.part[i] === part), select: true } });
  const nodes = page.cy.nodes(".op").filter((n) => opsOf(n).some((op) => page.view.part[page.index.get(op)] === part));
  highlight(nodes.union(nodes.edgesWith(nodes)));
}

/** @param {{ rowId: string } | null} cell */
function transfersRow(cell) {
  const row = clicked("transfers", cell);
  if (!row) return;
  const source = nodeOf(row.source_op),
    targets = nodesOf(row.target_ops);
  if (page.detail?.mode === "blocks" && source.hasClass("group")) {
    bringOp(row.source_op); // a closed block would hide both ends
    return;
  }
  const edges = source.edgesTo(targets);
  edges.addClass("mark");
  highlight(source.union(targets).union(edges), edges);
}

/** @param {import("cytoscape").CollectionReturnValue} elements @param {CyEdges} [marked] */
function highlight(elements, marked) {
  const cy = page.cy;
  cy.batch(() => {
    cy.elements(".mark, .dim").removeClass("mark dim");
    cy.elements().not(elements).not(".frame").addClass("dim");
    if (marked) marked.addClass("mark");
  });
  bring(elements);
}

/** @param {import("cytoscape").CollectionReturnValue} elements */
function bring(elements) {
  const box = elements.boundingBox(),
    fits = editor.wholeOf(box).zoom >= READABLE;
  editor.bring(fits ? box : elements.nodes().first().boundingBox());
}

/**
 * Goes to an op; blocks around it are opened.
 * @param {number} op
 * @param {boolean} [stay] the view moves only where the op is out of sight
 */
function bringOp(op, stay) {
  if (page.cy?.getElementById(`op${op}`).nonempty()) goTo(`op${op}`, stay);
  else if (page.detail?.mode === "blocks") {
    page.wanted = op;
    editor.reveal(op);
  } else if (page.cy && nodeOf(op).nonempty()) goTo(nodeOf(op).id());
}

/** @type {Hetero["goTo"]} */
function goTo(id, stay) {
  const node = page.cy?.getElementById(id);
  if (node?.empty() && opId(id) >= 0) bringOp(opId(id));
  if (!node?.nonempty()) return;
  unmark();
  page.cy.elements(":selected").unselect();
  node.select();
  if (stay) showSome(node);
  else editor.bring(node.boundingBox());
}

/** @type {Hetero["find"]} */
function find(text, next) {
  if (!page.cy || !text.trim()) return;
  editor.set("notice", { children: null });
  if (/[<>]|==|!=/.test(text)) {
    editor.edit({ do: "filter", text: text });
    return;
  }
  if (page.detail && page.detail.mode !== "ops") {
    page.matchNumber = next ? page.matchNumber + 1 : 0;
    editor.askDetail({ do: "find", text: text, skip: page.matchNumber });
    return;
  }
  const wanted = text.trim().toLowerCase();
  const hits = page.cy
    .nodes()
    .not(".frame")
    .filter((n) => n.data("find").includes(wanted));
  if (hits.empty()) {
    editor.flash(editor.byId("find"));
    editor.say(`Nothing is called “${text.trim()}”.`);
    return;
  }
  page.matchNumber = next ? (page.matchNumber + 1) % hits.length : 0;
  editor.say(`${page.matchNumber + 1} of ${hits.length}`);
  goTo(hits[page.matchNumber].id());
}

editor.provide({ reselect, selectNothing, selectOps, selectDevice, showPart, opId, opsIn, rangesOf, opsOf, nodesOf });
editor.provide({ selectedOps, showRow, reportSelection, choose, unmark, bringOp, arrive, goTo, find });
editor.callbacks({ select, subgraphsRow, transfersRow });
