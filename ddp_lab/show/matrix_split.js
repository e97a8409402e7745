// Two products shared out over ranks, by columns and by rows: who has what, and what is sent.
// `plan` is ddp_lab.show.matrix_split.plan: a test holds the two against each other.

const BOX = { tall: 120, tallest: 180, wide: 120, top: 56, gap: 44 };
const MOST = 816;
const WAYS = [
  ["column_row", "columns, then rows"], ["row_column", "rows, then columns"],
  ["column_column", "columns twice"], ["row_row", "rows twice"],
];

// What a way needs: how each array is cut ("" is whole on all ranks, + an addend each), and the
// collectives forward and backward as [name, elements].
function plan({ way, rows, width, hidden }) {
  const wide = rows * hidden;
  const narrow = rows * width;
  const [first, second] = way.split("_");
  const cuts = { X: first === "row" ? "column" : "", W1: first, H: first === "column" ? "column" : "", W2: second, Z: "" };
  const sent = [];
  if (first === "column") {
    sent.push(["all_reduce", narrow, "backward, in front of W1"]);
    if (second === "column") {
      cuts.H = "";
      sent.push(["all_gather", wide, "forward, of H"], ["reduce_scatter", wide, "backward, of H"]);
    }
  } else {
    sent.push(["all_gather", narrow, "backward, of the gradient of X"]);
    if (second === "row") {
      cuts.H = "column";
      sent.push(["reduce_scatter", wide, "forward, of H"], ["all_gather", wide, "backward, of H"]);
    } else sent.push(["all_reduce", wide, "forward, of H"], ["all_reduce", wide, "backward, of H"]);
  }
  sent.push(second === "row" ? ["all_reduce", narrow, "forward, of Z"] : ["all_gather", narrow, "forward, of Z"]);
  return { cuts, sent };
}

// Bytes that each rank sends over a ring, in 4-byte numbers.
function ringBytes(sent, ranks) {
  const trips = { all_reduce: 2, all_gather: 1, reduce_scatter: 1 };
  return sent.reduce((sum, [name, n]) => sum + (trips[name] * (ranks - 1) * n * 4) / ranks, 0);
}

function matrix(svg, x, tall, name, cut, ranks, chosen) {
  make(svg, "text", { x: x + BOX.wide / 2, y: BOX.top - 24, "text-anchor": "middle" }, name);
  const words = cut ? `by ${cut}s` : "whole on each";
  make(svg, "text", { class: "dl-small", x: x + BOX.wide / 2, y: BOX.top - 8, "text-anchor": "middle" }, words);
  for (let rank = 0; rank < ranks; rank += 1) {
    const share = { column: BOX.wide / ranks, row: tall / ranks };
    const at = cut === "column" ? { x: x + rank * share.column, y: BOX.top, width: share.column, height: tall }
      : cut === "row" ? { x, y: BOX.top + rank * share.row, width: BOX.wide, height: share.row }
        : { x, y: BOX.top, width: BOX.wide, height: tall };
    if (!cut && rank !== chosen) continue;
    const box = make(svg, "rect", {
      class: HUES[rank], ...at, stroke: "var(--dl-paper)", "stroke-width": 2, opacity: rank === chosen ? 1 : 0.3,
    });
    make(box, "title", {}, cut ? `${name}: the share of rank ${rank}` : `${name}: whole on rank ${rank}`);
    if (rank === chosen) {
      make(svg, "text", { class: "dl-inside", x: at.x + at.width / 2, y: at.y + at.height / 2 + 5, "text-anchor": "middle" }, `${rank}`);
    }
  }
}

function draw(svg, cuts, ranks, chosen) {
  svg.replaceChildren();
  const place = room(svg, 0, MOST); // a hall has room for taller boxes
  const tall = place.height ? Math.max(BOX.tall, Math.min(BOX.tallest, (place.height * MOST) / place.width - BOX.top - 20)) : BOX.tall;
  svg.setAttribute("viewBox", `0 0 ${MOST} ${BOX.top + tall + 20}`);
  const signs = ["X", "·", "W1", "→", "H", "·", "W2", "→", "Z"];
  let x = 20;
  for (const sign of signs) {
    if (cuts[sign] === undefined) {
      make(svg, "text", { x: x + BOX.gap / 2, y: BOX.top + tall / 2 + 5, "text-anchor": "middle" }, sign);
      x += BOX.gap;
    } else {
      matrix(svg, x, tall, sign === "H" ? "H = relu(X W1)" : sign, cuts[sign], ranks, chosen);
      x += BOX.wide;
    }
  }
}

function table(list, sent, ranks) {
  list.replaceChildren();
  const rows = [...sent.map(([name, n, where]) => [`${name}, ${where}`, bytes(4 * n)]),
    ["Each rank sends, over a ring", bytes(ringBytes(sent, ranks))]];
  for (const [name, value] of rows) {
    const pair = make(list, "div");
    make(pair, "dt", {}, name);
    make(pair, "dd", {}, value);
  }
}

const SLIDERS = [
  ["ranks", "Ranks", { min: 1, max: 4, step: 1, words: (v) => `${v} rank${v === 1 ? "" : "s"}` }],
  ["chosen", "Rank looked at", { min: 0, max: 3, step: 1, words: (v) => `rank ${v}` }],
  ["rows", "Rows of X", { min: 0, max: 14, step: 1, log: true, words: (v) => String(v) }],
  ["width", "Width", { min: 4, max: 14, step: 1, log: true, words: (v) => String(v) }],
  ["times", "Hidden over width", { min: 1, max: 8, step: 1, words: (v) => `${v} times` }],
];

function render({ model, el }) {
  const get = (name) => model.get(name);
  const title = get("title");
  const parts = frame(el, "dl-split", title, "Strong colour: what the rank looked at has. A relu stands between the two products.", [["dl-a", "rank 0"], ["dl-b", "rank 1"], ["dl-c", "rank 2"], ["dl-d", "rank 3"]]);
  const list = make(parts.root, "dl", { class: "dl-numbers" });
  const show = () => {
    const ranks = get("ranks");
    const chosen = Math.min(get("chosen"), ranks - 1);
    const given = { way: get("way"), rows: get("rows"), width: get("width"), hidden: get("width") * get("times") };
    const { cuts, sent } = plan(given);
    draw(parts.svg, cuts, ranks, chosen);
    table(list, sent, ranks);
    const text = `Rank ${chosen} of ${ranks}: ${sent.length} collectives a step, each rank sends ${bytes(ringBytes(sent, ranks))}.`;
    parts.status.textContent = text;
    parts.svg.setAttribute("aria-label", `${title}. ${text}`);
  };
  const select = choice(parts.controls, "Cut", WAYS, get("way"), (way) => { tell(model, "way", way); show(); });
  const lets = SLIDERS.map(([name, label, { log, words, ...range }]) => {
    const to = (v) => (log ? Math.log2(v) : v);
    const from = (p) => (log ? 2 ** p : p);
    const options = { ...range, value: to(get(name)), words: (p) => words(from(p)) };
    const one = slider(parts.controls, label, options, (p) => { tell(model, name, from(p)); show(); });
    return follow(model, name, (value) => { one.set(to(value)); show(); });
  });
  lets.push(follow(model, "way", (way) => { select.value = way; show(); }));
  lets.push(live(parts, show));
  return () => lets.forEach((let_go) => let_go());
}

export default { render };
export { plan, ringBytes };
