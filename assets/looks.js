/* How the elements of the graph look under a plan: names, fills and classes. Those of a new page have their looks before Cytoscape
   sees them; those of a later plan are compared with what Cytoscape holds. */

const STRIPES = 20, // percent of the height of a block, for devices that have less of it. As _STRIPES of drawing/preview.py
  WORDS = 20, // letters that a block has room for
  // as `_FAR` of drawing/preview.py
  FAR = { near: [13, 17], farther: [15, 22], low: 17, letter: 0.55, long: 16, room: [118, 136] };

/** @typedef {{ data: Record<string, string | number>, classes: Record<string, boolean> }} Looks */

/** The keys 1 to 9 as signs; the colours are not the only thing that tells devices apart. @param {number[]} devices */
const signs = (devices) => devices.map((d) => (d < 9 ? String.fromCodePoint(0x2460 + d) : "")).join("");

/**
 * A text cut to a length, at its beginning where another text would look the same. As `apart` of editor/text.py.
 * @param {string} text
 * @param {string[]} others
 * @param {number} length
 */
function apart(text, others, length) {
  if (text.length <= length) return text;
  const alike = others.some((other) => other !== text && other.startsWith(text.slice(0, length - 1)));
  return alike ? `…${text.slice(1 - length)}` : editor.short(text, length);
}

/**
 * A block from afar: its devices' numbers, and the end of its name, by which blocks differ. As `_far_name` of drawing/preview.py.
 * @param {string} name
 * @param {string} numbers
 */
const farName = (name, numbers) => `${numbers} ${ending(name, 16 - 2 * numbers.length)}`;

/**
 * The line that a node has from afar, and its sizes there and from farther away; with a long one the node is wider.
 * @param {string} brief
 * @param {boolean} group
 * @param {boolean} [low] whether the node has no height for large letters
 * @returns {Looks}
 */
function fromAfar(brief, group, low) {
  const letters = [...brief].reduce((sum, letter) => sum + (/[①-⑨]/.test(letter) ? 2 : 1), 0),
    long = letters > FAR.long,
    room = Math.floor(FAR.room[group || long ? 1 : 0] / (FAR.letter * letters)),
    [briefSize, farSize] = [FAR.near, FAR.farther].map(([least, most]) =>
      Math.max(least, Math.min(low ? FAR.low : most, room)),
    );
  return { data: { brief, briefSize, farSize }, classes: { long: long && !group } };
}

/**
 * A name cut to a length at its beginning, between words where that keeps most of it. As `end_of_name` of editor/text.py.
 * @param {string} name
 * @param {number} length
 */
function ending(name, length) {
  if (name.length <= length) return name;
  const end = name.slice(1 - length).replace(/^[./ _]+/, ""),
    words = end.replace(/^[^./ _]+[./ _]+/, "");
  return `…${words.length >= 0.6 * length ? words : end}`;
}

/** A type of op from afar. As `_briefly` of drawing/preview.py. @param {string} type */
const briefly = (type) => type.replace("Normalization", "Norm").replace("Attention", "Attn").replace("AveragePool", "AvgPool");

/** A type of op as the first line of its node. As `_near_name` of drawing/preview.py. @param {string} type */
const nearName = (type) => (type.length <= WORDS - 1 ? type : editor.short(briefly(type), WORDS - 1));

/** @type {Hetero["showFrom"]} */
function showFrom(nodes, far) {
  for (const [name, on] of Object.entries(far)) nodes.toggleClass(name, on);
}

/** The looks of one plan. */
class Dresser {
  /** @param {Messages.View} view @param {string} [mode] colours other than those that are chosen */
  constructor(view, mode) {
    this.view = view;
    this.mode = mode;
    this.names = view.devices.map((d) => d.name);
    this.index = new Map(view.ops.map((op, i) => [op, i]));
  }

  /** @param {any} data @returns {Looks | null} */
  node(data) {
    if (data.tensor !== undefined) return fromAfar(data.name, false, true);
    return data.ops === undefined ? this.op(data) : this.block(data);
  }

  /** @param {Messages.NodeData} data @returns {Looks | null} */
  op(data) {
    const view = this.view,
      i = this.index.get(/** @type {number} */ (data.op));
    if (i === undefined) return null;
    const [look, word] = editor.lookOf(view, i, this.mode),
      far = fromAfar(`${signs([view.device[i]])} ${briefly(data.name)}`, false);
    return {
      data: {
        fill: look.fill,
        ink: look.ink,
        label: `${nearName(data.name)}\n${apart(word, this.names, view.part[i] > 99 ? 10 : 12)} · s${view.part[i]}`,
        ...far.data,
      },
      classes: { ...far.classes, pinned: view.pin[i] === 1, forced: view.pin[i] === 2 },
    };
  }

  /* A closed block: the colour of most of its ops, a stripe for each other one at the bottom, and how many ops each device has. */
  /** @param {Messages.NodeData} data @returns {Looks} */
  block(data) {
    const view = this.view,
      shares = new Map(),
      devices = new Map(),
      ops = editor.opsIn(/** @type {string} */ (data.ops)),
      total = ops.length;
    let pinned = false;
    for (const op of ops) {
      const i = /** @type {number} */ (this.index.get(op)),
        look = editor.lookOf(view, i, this.mode)[0],
        share = shares.get(look.fill) ?? { look, count: 0 };
      share.count += 1;
      shares.set(look.fill, share);
      devices.set(view.device[i], (devices.get(view.device[i]) || 0) + 1);
      pinned ||= view.pin[i] > 0;
    }
    const [most, ...others] = [...shares.values()].sort((a, b) => b.count - a.count),
      colours = [most.look.fill, most.look.fill],
      stops = ["0%", `${100 - STRIPES}%`],
      rest = total - most.count;
    let done = 0;
    for (const { look, count } of others) {
      colours.push(look.fill, look.fill);
      stops.push(...[done, done + count].map((before) => `${100 - STRIPES + (STRIPES * before) / rest}%`));
      done += count;
    }
    const many = [...devices].sort((a, b) => b[1] - a[1]),
      numbers = signs(many.map((share) => share[0]).slice(0, 3)),
      far = fromAfar(farName(/** @type {string} */ (data.far), numbers), true);
    return {
      data: {
        fill: most.look.fill,
        ink: most.look.ink,
        label: `${data.name}\n${editor.short(this.shares(many, total), WORDS)}`,
        ...far.data,
        colours: colours.join(" "),
        stops: stops.join(" "),
      },
      classes: { mixed: others.length > 0, pinned },
    };
  }

  /** The devices of a block in words. @param {number[][]} many devices and their numbers of ops @param {number} total */
  shares(many, total) {
    if (many.length === 1) {
      const name = this.names[many[0][0]],
        words = `${total} ${total === 1 ? "op" : "ops"} on ${name}`;
      return words.length <= WORDS ? words : `${total} on ${name}`;
    }
    const counts = many.map(([device, n]) => (many.length > 3 ? `${n}` : `${signs([device])} ${n}`));
    return `${counts.join(" · ")} ops`;
  }

  /** @param {any} data @returns {Looks} */
  edge(data) {
    if (data.states) return { data: {}, classes: {} };
    const { part, device } = this.view;
    let crosses = false,
      moves = false;
    const widths = new Set();
    for (const [s, t] of data.pairs || [[editor.opId(data.source), editor.opId(data.target)]]) {
      const a = this.index.get(s),
        b = this.index.get(t);
      if (a === undefined || b === undefined) continue;
      if (part[a] !== part[b]) crosses = true;
      if (device[a] !== device[b]) moves = true;
      widths.add(this.width(device[a], device[b]));
    }
    return { data: this.several(data, [...widths]), classes: { transfer: moves, boundary: crosses && !moves } };
  }

  /* Bits of a float on the way from a device to another: of the narrower form that one of them plans it in; 0 is its own. */
  /** @param {number} from @param {number} to */
  width(from, to) {
    const [a, b] = [from, to].map((number) => this.view.devices[number].bits);
    return Math.min(a || b, b || a);
  }

  /* Several tensors in words; what they weigh where all of them travel alike. */
  /** @param {any} data @param {number[]} widths @returns {Looks["data"]} */
  several({ sizes, shape }, widths) {
    // an edge that carries one tensor now may still have the sizes of several
    if (!sizes?.length || widths.length > 1 || !shape.includes(" tensors")) return {};
    const size = sizes[[0, 8, 16].indexOf(widths[0] || 0)];
    return { shape: `${shape.split(",")[0]}, ${editor.humanBytes(size)}` };
  }
}

/** @param {CyNode | CyEdge} element @param {Looks | null} looks */
function change(element, looks) {
  if (!looks) return;
  const held = element.data();
  if (Object.entries(looks.data).some(([name, value]) => held[name] !== value)) element.data(looks.data);
  for (const [name, on] of Object.entries(looks.classes)) if (element.hasClass(name) !== on) element.toggleClass(name, on);
}

const CALM = window.matchMedia("(prefers-reduced-motion: reduce)"),
  FADE_MS = 150,
  MOST_FADED = 400;

/* What an answer has given another colour fades to it. */
/** @param {[CyNode, string][]} before nodes, and the colours that they had */
function fade(before) {
  for (const [node, was] of before)
    node
      .stop(true)
      .style("background-color", was)
      .animate({
        style: { "background-color": node.data("fill") },
        duration: FADE_MS,
        complete: () => node.removeStyle("background-color"),
      });
}

/** @type {Hetero["colour"]} */
function colour(cy, view, fades) {
  const dresser = new Dresser(view),
    nodes = /** @type {CyNode[]} */ (fades && !CALM.matches ? cy.nodes(".op").not(".mixed").toArray() : []);
  const before = nodes.map((node) => /** @type {[CyNode, string]} */ ([node, node.data("fill")]));
  cy.batch(() => {
    showFrom(cy.nodes().not(".frame"), page.far);
    cy.nodes(".op, .terminal").forEach((node) => change(node, dresser.node(node.data())));
    cy.edges().forEach((edge) => change(edge, dresser.edge(edge.data())));
  });
  lines(cy);
  const changed = before.filter(([node, was]) => was && node.data("fill") !== was);
  if (changed.length <= MOST_FADED) fade(changed);
}

/* What the dashed lines mean that are drawn; states of which there are too many to draw are said to be there. */
/** @type {Hetero["lines"]} */
function lines(cy) {
  const box = editor.byId("lines"),
    states = cy.edges(".state"),
    hidden = states.filter(".faint");
  if (!box) return;
  const many = hidden.reduce((count, edge) => count + edge.data("states").length, 0);
  const entries = [
    cy.edges(".boundary").nonempty() && ["boundary", "to another subgraph of the same device"],
    states.length > hidden.length && ["state", "kept for the next step"],
    hidden.nonempty() && ["state", `${editor.counted(many, "state")} kept for the next step: select an op to see its own`],
  ].filter((entry) => entry !== false);
  box.hidden = !entries.length;
  box.replaceChildren(
    ...entries.map(([kind, words]) => editor.make("span", {}, editor.make("i", { className: `line ${kind}` }), words)),
  );
}

/** @type {Hetero["dress"]} */
function dress(elements, view, mode) {
  const dresser = new Dresser(view, mode);
  for (const element of elements) {
    if (element.classes === "frame") continue;
    const isNode = "position" in element,
      looks = isNode ? dresser.node(element.data) : dresser.edge(element.data);
    if (looks) Object.assign(element.data, looks.data);
    const added = Object.entries({ ...(isNode && page.far), ...looks?.classes }).filter(([, on]) => on);
    element.classes = [element.classes, ...added.map(([name]) => name)].join(" ").trim();
  }
}

editor.provide({ colour, dress, lines, showFrom, signs });
