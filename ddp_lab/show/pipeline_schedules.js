// A step of a pipeline, gone through action by action while the sliders move. `simulate` is
// ddp_lab.simulate.pipeline over ddp_lab.parallel.pipeline.schedules: a test holds them against each other.

const ROW = { left: 120, right: 30, height: 30, gap: 8, top: 18, foot: 30 };
const LEGEND = [["dl-a", "F: forward"], ["dl-b", "B: backward, or I, its half for the input"], ["dl-d", "W: its half for the weights"]];
const HUE = { F: "dl-a", B: "dl-b", I: "dl-b", W: "dl-d" };
const NAMES = [
  ["naive", "naive: one micro-batch"], ["gpipe", "GPipe"], ["1f1b", "1F1B"],
  ["interleaved_1f1b", "interleaved 1F1B"], ["zero_bubble", "zero bubble"],
];
const range = (n) => Array.from({ length: n }, (_, k) => k);

// What the sliders come to: one stage a rank, and rounds of one size, where a schedule wants that.
function fitted({ schedule, ranks, microbatches, chunks }) {
  if (schedule === "naive") return { schedule: "gpipe", ranks, microbatches: 1, chunks: 1 };
  if (["gpipe", "1f1b"].includes(schedule)) return { schedule, ranks, microbatches, chunks: 1 };
  const rounds = Math.max(1, Math.floor(microbatches / ranks));
  return { schedule, ranks, microbatches: Math.floor(microbatches / rounds) * rounds, chunks };
}

function interleaved(rank, ranks, microbatches, chunks, warmup_a_rank) {
  const round = Math.floor(microbatches / Math.max(1, Math.floor(microbatches / ranks)));
  const stages = range(chunks).map((c) => rank + c * ranks);
  const inRounds = (kind, order) => range(microbatches / round).flatMap((r) =>
    order.flatMap((stage) => range(round).map((k) => [stage, kind, r * round + k])));
  const forwards = inRounds("F", stages);
  const backwards = inRounds("B", [...stages].reverse());
  const total = microbatches * chunks;
  const warmup = Math.min((chunks - 1) * round + warmup_a_rank * (ranks - 1 - rank), total);
  const turns = range(total - warmup).flatMap((k) => [forwards[warmup + k], backwards[k]]);
  return [...forwards.slice(0, warmup), ...turns, ...backwards.slice(total - warmup)];
}

const ORDERS = {
  gpipe: (rank, _, microbatches) => ["F", "B"].flatMap((kind) => range(microbatches).map((m) => [rank, kind, m])),
  "1f1b": (rank, ranks, microbatches) => {
    const ahead = Math.min(ranks - rank, microbatches);
    const later = range(microbatches).flatMap((m) =>
      [[rank, "B", m], ...(m + ahead < microbatches ? [[rank, "F", m + ahead]] : [])]);
    return [...range(ahead).map((m) => [rank, "F", m]), ...later];
  },
  interleaved_1f1b: (rank, ranks, microbatches, chunks) => interleaved(rank, ranks, microbatches, chunks, 2),
  zero_bubble: (rank, ranks, microbatches, chunks) => {
    const late = [];
    const order = interleaved(rank, ranks, microbatches, chunks, 1).flatMap(([stage, kind, m]) => {
      if (kind === "F") return [[stage, "F", m]];
      late.push([stage, "W", m]);
      return [[stage, "I", m], ...(late.length > rank ? [late.shift()] : [])];
    });
    return [...order, ...late];
  },
};

function needs([stage, kind, m], last) {
  if (kind === "F") return stage ? [`${stage - 1}F${m}`] : [];
  if (kind === "W") return [`${stage}G${m}`];
  return stage === last ? [`${stage}F${m}`] : [`${stage}F${m}`, `${stage + 1}G${m}`];
}

function simulate(given) {
  const { schedule, ranks, microbatches, chunks } = fitted(given);
  const forward = 1 / chunks;
  const took = { F: forward, B: forward * given.ratio, I: forward * given.ratio / 2, W: forward * given.ratio / 2 };
  const orders = range(ranks).map((rank) => ORDERS[schedule](rank, ranks, microbatches, chunks));
  const ended = new Map();
  const spans = orders.map(() => []);
  let left = orders.reduce((sum, order) => sum + order.length, 0);
  while (left) {
    orders.forEach((order, rank) => {
      for (;;) {
        const action = order[spans[rank].length];
        if (!action) return;
        const before = needs(action, ranks * chunks - 1);
        if (!before.every((key) => ended.has(key))) return;
        const free = spans[rank].length ? spans[rank][spans[rank].length - 1].to : 0;
        const from = Math.max(free, ...before.map((key) => ended.get(key)));
        const [stage, kind, m] = action;
        const to = from + took[kind];
        ended.set(`${stage}${"BI".includes(kind) ? "G" : kind}${m}`, to);
        spans[rank].push({ stage, kind, m, from, to });
        left -= 1;
      }
    });
  }
  const makespan = Math.max(...spans.map((row) => row[row.length - 1].to));
  const busy = spans.flat().reduce((sum, span) => sum + span.to - span.from, 0);
  const peaks = spans.map((row) => {
    let held = 0;
    return Math.max(...row.map(({ kind }) => { held += { F: 1, B: -1, I: 0, W: -1 }[kind]; return held; })) / chunks;
  });
  const crossings = 2 * (ranks * chunks - 1) * microbatches * (ranks > 1);
  return { spans, makespan, idle: Math.max(0, 1 - busy / (makespan * ranks)), peaks, microbatches, chunks, crossings };
}

function draw(svg, run, memory) {
  svg.replaceChildren();
  const pitch = pitchOf(svg, run.spans.length, ROW.height + ROW.gap, ROW.top + ROW.foot);
  const tall = pitch - ROW.gap;
  const across = room(svg).width;
  const wide = across - ROW.left - ROW.right;
  const at = (t) => ROW.left + (wide * t) / run.makespan;
  run.spans.forEach((row, rank) => {
    const y = ROW.top + rank * pitch;
    const over = run.peaks[rank] > memory;
    const two = pitch >= ROW.height; // else there is room for one line of words
    const held = `holds ${short(run.peaks[rank])}${over ? ": too much" : ""}`;
    make(svg, "text", { x: ROW.left - 8, y: y + (two ? tall / 2 - 1 : tall / 2 + 5), "text-anchor": "end" }, two || !over ? `rank ${rank}` : `${rank}: too much`);
    if (two) make(svg, "text", { class: "dl-small", x: ROW.left - 8, y: y + tall / 2 + 13, "text-anchor": "end" }, held);
    for (const { stage, kind, m, from, to } of row) {
      const width = Math.max(at(to) - at(from) - 0.75, 0.5);
      const box = make(svg, "rect", { class: HUE[kind], x: at(from), y, width, height: tall, "data-rank": rank });
      make(box, "title", {}, `${stage}${kind}${m}: ${short(from)} to ${short(to)}`);
      const label = `${kind}${m}`;
      if (!fitsIn(label, width)) continue;
      make(svg, "text", { class: "dl-inside", x: at(from) + width / 2, y: y + tall / 2 + 5, "text-anchor": "middle" }, label);
    }
  });
  const bottom = ROW.top + run.spans.length * pitch;
  for (const tick of ticks(run.makespan)) {
    make(svg, "line", { class: "dl-axis", x1: at(tick), y1: bottom, x2: at(tick), y2: bottom + 5 });
    make(svg, "text", { class: "dl-small", x: at(tick), y: bottom + 19, "text-anchor": "middle" }, short(tick));
  }
  make(svg, "text", { class: "dl-small", x: ROW.left - 12, y: bottom + 19, "text-anchor": "end" }, "in forwards");
  make(svg, "line", { class: "dl-axis", x1: ROW.left, y1: bottom, x2: ROW.left + wide, y2: bottom });
  svg.setAttribute("viewBox", `0 0 ${across} ${bottom + ROW.foot}`);
}

const plural = (n, word) => `${short(n)} ${word}${n === 1 ? "" : word.endsWith("ch") ? "es" : "s"}`;
const SLIDERS = [
  ["ranks", "Ranks", { min: 1, max: 8, step: 1, words: (v) => plural(v, "rank") }],
  ["microbatches", "Micro-batches", { min: 1, max: 32, step: 1, words: (v) => plural(v, "micro-batch") }],
  ["chunks", "Stages a rank", { min: 1, max: 4, step: 1, words: (v) => plural(v, "stage") }],
  ["ratio", "Backward over forward", { min: 0.5, max: 4, step: 0.25, words: (v) => `${short(v)} times` }],
  ["room", "Memory of a rank", { min: 1, max: 32, step: 1, words: (v) => plural(v, "micro-batch") }],
];

function numbers(list, run, room) {
  list.replaceChildren();
  const rows = [
    ["Step", `${short(run.makespan)} forwards`], ["Idle", `${(100 * run.idle).toFixed(1)} %`],
    ["Held at most", plural(Math.max(...run.peaks), "micro-batch")],
    ["Messages", String(run.crossings)],
    ["Fits", Math.max(...run.peaks) > room ? "no" : "yes"],
  ];
  for (const [name, value] of rows) {
    const pair = make(list, "div");
    make(pair, "dt", {}, name);
    make(pair, "dd", {}, value);
  }
}

function render({ model, el }) {
  const get = (name) => model.get(name);
  const title = get("title");
  const parts = frame(el, "dl-pipeline", title,
    "The number is the micro-batch. Time in forwards of a micro-batch on one rank.", LEGEND);
  const list = make(parts.root, "dl", { class: "dl-numbers" });
  const show = () => {
    const names = ["schedule", "ranks", "microbatches", "chunks", "ratio"];
    const run = simulate(Object.fromEntries(names.map((name) => [name, get(name)])));
    draw(parts.svg, run, get("room"));
    numbers(list, run, get("room"));
    const over = run.peaks.filter((peak) => peak > get("room")).length;
    const text = `${plural(run.microbatches, "micro-batch")}: a step takes ${short(run.makespan)} forwards, idle ${(100 * run.idle).toFixed(1)} %; `
      + `a rank holds up to ${plural(Math.max(...run.peaks), "micro-batch")}${over ? `, too many on ${plural(over, "rank")}` : ""}.`;
    parts.status.textContent = text;
    parts.svg.setAttribute("aria-label", `${title}. ${text}`);
  };
  const select = choice(parts.controls, "Schedule", NAMES, get("schedule"), (name) => { tell(model, "schedule", name); show(); });
  const lets = SLIDERS.map(([name, label, options]) => {
    const one = slider(parts.controls, label, { ...options, value: get(name) }, (v) => { tell(model, name, v); show(); });
    return follow(model, name, (value) => { one.set(value); show(); });
  });
  lets.push(follow(model, "schedule", (name) => { select.value = name; show(); }));
  lets.push(live(parts, show));
  return () => lets.forEach((let_go) => let_go());
}

export default { render };
export { simulate };
