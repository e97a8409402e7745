// One step of data-parallel training, recomputed while the sliders move. `simulate` is
// ddp_lab.simulate.ddp, word for word: a test holds the two against each other.

const LANE = { left: 130, right: 30, height: 30, gap: 14 };
const TOP = 34;
const LABEL = 160; // the room that "without overlap" and its time take
const LEGEND = [
  ["dl-d", "forward, optimizer"], ["dl-a", "backward, a piece a gradient"],
  ["dl-c", "bucket that travels beside it"], ["dl-b", "bucket that is waited for"],
];
const MIB = 1048576;

// What computes, at speed 1, and more slowly beside a bucket that travels; cf. `_Core.work`.
function work(core, seconds_left) {
  for (const bucket of core.slowed) {
    const free = Math.min(seconds_left, Math.max(0, bucket.began_at - core.now));
    core.now += free;
    seconds_left -= free;
    const left = bucket.ended_at - core.now;
    if (seconds_left <= 0 || left <= 0) continue;
    const done = Math.min(seconds_left, left * core.speed);
    core.now = done === seconds_left ? core.now + done / core.speed : bucket.ended_at;
    seconds_left -= done;
  }
  core.now += seconds_left;
  return core.now;
}

// The layers of each bucket: closed once its bytes reach the limit.
function fill(n_bytes, limit) {
  const buckets = [];
  let filling = [];
  let filled = 0;
  n_bytes.forEach((size, layer) => {
    filling.push(layer);
    filled += size;
    if (filled >= limit) { buckets.push(filling); filling = []; filled = 0; }
  });
  return filling.length ? [...buckets, filling] : buckets;
}

// Seconds of a ring all-reduce: 2(p-1) alpha + 2(p-1)/p n beta.
function ring(n, { ranks, alpha, bytes_per_s }) {
  return 2 * (ranks - 1) * alpha + (2 * (ranks - 1) * n) / ranks / bytes_per_s;
}

function simulate({ forward, backward, n_bytes, bucket_bytes, contention, overlap, ...link }) {
  const core = { now: forward, slowed: [], speed: 1 - contention };
  const buckets = [];
  const ready_at = [];
  let free_at = 0;
  const send = ({ layers, total, ready }, at) => {
    const began_at = Math.max(at, free_at);
    free_at = began_at + (total ? ring(total, link) : 0);
    buckets.push({ layers, n_bytes: total, ready_at: ready, began_at, ended_at: free_at });
    return buckets[buckets.length - 1];
  };
  const full = [];
  for (const layers of fill(n_bytes, bucket_bytes)) {
    for (const layer of layers) ready_at.push(work(core, backward[layer]));
    const total = layers.reduce((sum, layer) => sum + n_bytes[layer], 0);
    full.push({ layers, total, ready: core.now });
    if (overlap) core.slowed.push(send(full[full.length - 1], core.now));
  }
  if (!overlap) for (const bucket of full) send(bucket, core.now);
  const compute_ended_at = core.now;
  const step_time = Math.max(compute_ended_at, ...buckets.map((b) => b.ended_at));
  const compute_time = forward + backward.reduce((a, b) => a + b, 0);
  const communication_time = buckets.reduce((sum, b) => sum + b.ended_at - b.began_at, 0);
  const after = buckets.filter((b) => b.ended_at > compute_ended_at)
    .reduce((sum, b) => sum + b.ended_at - Math.max(b.began_at, compute_ended_at), 0);
  return {
    forward, buckets, ready_at, compute_ended_at, step_time, compute_time, communication_time,
    exposed: step_time - compute_time, hidden: communication_time - after,
  };
}

// What the simulator gets: the recorded layers, or so many equal ones with the same totals.
function inputs(get) {
  const model = get("case");
  const layers = get("layers");
  const own = layers === 0 && model.layers.length;
  const backward = own ? model.layers.map((l) => l.backward)
    : Array(Math.max(layers, 1)).fill(model.backward / Math.max(layers, 1));
  const n_bytes = own ? model.layers.map((l) => l.n_bytes)
    : Array(Math.max(layers, 1)).fill(model.n_bytes / Math.max(layers, 1));
  return {
    forward: model.forward, backward, n_bytes, ranks: model.ranks,
    bucket_bytes: get("bucket_mib") * MIB, alpha: get("latency_us") * 1e-6,
    bytes_per_s: get("bandwidth_gb_s") * 1e9, contention: get("contention"), overlap: true,
  };
}

function bestBucket(given, sizes) {
  const step = (size) => simulate({ ...given, bucket_bytes: size * MIB }).step_time;
  return sizes.reduce((best, size) => (step(size) < step(best) * (1 - 1e-9) ? size : best));
}

function lane(svg, row, name, spans, at, pitch) {
  const y = TOP + row * pitch;
  const tall = pitch - LANE.gap;
  make(svg, "text", { x: LANE.left - 8, y: y + tall / 2 + 5, "text-anchor": "end" }, name);
  for (const { from, to, hue, title } of spans) {
    const width = Math.max(at(to) - at(from), 0.75);
    const box = make(svg, "rect", {
      class: hue, x: at(from), y, width, height: tall, "data-lane": name,
    });
    make(box, "title", {}, title);
  }
  spans.forEach(({ from, to, label }, k) => { // spans of a recorded step may overlap
    const end = Math.min(at(to), k + 1 < spans.length ? at(spans[k + 1].from) : Infinity);
    if (!label || end - at(from) < 9 * label.length) return;
    make(svg, "text", { class: "dl-inside", x: (at(from) + end) / 2, y: y + tall / 2 + 5, "text-anchor": "middle" }, label);
  });
}

function draw(svg, run, apart, recorded) {
  svg.replaceChildren();
  const ends = [run.step_time, apart.step_time, ...recorded.map((s) => s.end)];
  const limit = Math.max(...ends, 1e-9);
  const across = room(svg).width;
  const wide = across - LANE.left - LANE.right;
  const at = (s) => LANE.left + (wide * s) / limit;
  const title = (name, from, to) => `${name}: ${seconds(from)} to ${seconds(to)}`;
  let before = run.forward;
  const compute = [{ from: 0, to: run.forward, hue: "dl-d", label: "forward", title: title("forward", 0, run.forward) }];
  run.ready_at.forEach((to, k) => {
    compute.push({ from: before, to, hue: "dl-a", title: title(`backward, gradient ${k + 1}`, before, to) });
    before = to;
  });
  const link = run.buckets.map((b, k) => ({
    from: b.began_at, to: b.ended_at, hue: b.ended_at > run.compute_ended_at ? "dl-b" : "dl-c", label: `${k + 1}`,
    title: title(`bucket ${k + 1}, ${bytes(b.n_bytes)}`, b.began_at, b.ended_at),
  }));
  const lanes = [...new Set(recorded.map((s) => s.lane))];
  const pitch = pitchOf(svg, 2 + lanes.length, LANE.height + LANE.gap, TOP + 28);
  lane(svg, 0, "compute", compute, at, pitch);
  lane(svg, 1, "link", link, at, pitch);
  lanes.forEach((name, k) => lane(svg, 2 + k, `recorded ${name === "communication" ? "link" : name}`, recorded
    .filter((s) => s.lane === name)
    .map((s) => ({ from: s.start, to: s.end, hue: s.hue, label: s.name, title: title(s.name, s.start, s.end) })), at, pitch));
  const bottom = TOP + (2 + lanes.length) * pitch;
  const steps = [[run.step_time, "step", 14], [apart.step_time, "without overlap", 28]];
  for (const [x, , y] of steps) {
    make(svg, "line", { class: "dl-mark", x1: at(x), y1: y + 4, x2: at(x), y2: bottom });
  }
  for (const [x, text, y] of steps) { // on top of the lines, which they may cross
    const room = LANE.left + wide - at(x) > LABEL;
    make(svg, "text", { class: "dl-small dl-over", x: at(x) + (room ? 4 : -4), y, "text-anchor": room ? "start" : "end" },
      `${text} ${seconds(x)}`);
  }
  for (const tick of ticks(limit * 1e3, wide / 80)) {
    const x = at(tick / 1e3);
    make(svg, "line", { class: "dl-axis", x1: x, y1: bottom, x2: x, y2: bottom + 5 });
    make(svg, "text", { class: "dl-small", x, y: bottom + 19, "text-anchor": "middle" }, `${short(tick)} ms`);
  }
  make(svg, "line", { class: "dl-axis", x1: LANE.left, y1: bottom, x2: LANE.left + wide, y2: bottom });
  svg.setAttribute("viewBox", `0 0 ${across} ${bottom + 28}`);
}

const LOG2 = (low, high) => ({ min: Math.log2(low), max: Math.log2(high), step: 0.25 });
const SLIDERS = [
  ["bucket_mib", "Bucket size", { ...LOG2(1 / 16, 1024), to: Math.log2, from: (p) => 2 ** p, words: (v) => bytes(v * MIB) }],
  ["bandwidth_gb_s", "Bandwidth", { ...LOG2(1 / 128, 512), to: Math.log2, from: (p) => 2 ** p, words: bandwidth }],
  ["latency_us", "Latency", { ...LOG2(0.5, 4096), to: Math.log2, from: (p) => 2 ** p, words: (v) => `${short(v)} µs` }],
  ["layers", "Layers", { min: 0, max: 96, step: 1, to: (v) => v, from: (p) => p, words: (v) => (v ? `${v} equal ones` : "as given") }],
  ["contention", "Compute lost beside the link", { min: 0, max: 1, step: 0.05, to: (v) => v, from: (p) => p, words: (v) => `${Math.round(v * 100)} %` }],
];
const SIZES = Array.from({ length: 57 }, (_, k) => 2 ** (-4 + k / 4));

function numbers(list, run, apart) {
  list.replaceChildren();
  const share = apart.step_time ? 1 - run.step_time / apart.step_time : 0;
  const saved = Math.round(share * 1000) / 10 + 0; // no -0
  const rows = [
    ["Step", seconds(run.step_time)], ["Compute alone", seconds(run.compute_time)],
    ["Communication", seconds(run.communication_time)], ["Hidden", seconds(run.hidden)],
    ["Added to the step", seconds(run.exposed)], ["Buckets", String(run.buckets.length)],
    ["Saved by overlap", `${saved.toFixed(1)} %`],
  ];
  for (const [name, value] of rows) {
    const pair = make(list, "div");
    make(pair, "dt", {}, name);
    make(pair, "dd", {}, value);
  }
}

// Why a recorded step lasts as long as it does: the difference to the prediction, part by part.
function why(run, recorded) {
  const total = Math.max(...recorded.map((s) => s.end));
  const sum = (name) => recorded.filter((s) => s.name === name).reduce((all, s) => all + s.end - s.start, 0);
  const calls = recorded.filter((s) => s.lane === "communication");
  const [forward, backward, optimizer] = ["forward", "backward", "optimizer"].map(sum);
  const parts = [
    ["forward", forward - run.forward],
    ["backward", backward - (run.compute_ended_at - run.forward)],
    ["waiting for buckets", total - forward - backward - optimizer - (run.step_time - run.compute_ended_at)],
    ["the optimizer, which is not predicted", optimizer],
  ];
  const signed = (s) => (s < 0 ? "−" : "+") + seconds(Math.abs(s));
  const busy = calls.reduce((all, s) => all + s.end - s.start, 0);
  return `Recorded: ${seconds(total)}, predicted: ${seconds(run.step_time)}. The difference: `
    + parts.map(([name, s]) => `${name} ${signed(s)}`).join(", ")
    + `. All buckets together travelled ${seconds(busy)}, predicted ${seconds(run.communication_time)}: `
    + "a prediction gives each bucket the link to itself, in the recording they overlap and share the cores with backward.";
}

// Where the sliders stand elsewhere than the recording, no part of it can be compared.
function elsewhere({ bandwidth_gb_s, latency_us, contention }, recorded) {
  return `Recorded: ${seconds(Math.max(...recorded.map((s) => s.end)))}, on another link: ${short(bandwidth_gb_s)} GB/s, `
    + `${short(latency_us)} µs, ${Math.round(contention * 100)} % of compute lost beside it. “As recorded” sets the sliders so.`;
}

// A bucket that is dragged wider or narrower takes the link's bandwidth along.
function drag(svg, get, moved) {
  let held = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.target.getAttribute("data-lane") !== "link") return;
    held = { x: event.clientX, wide: event.target.getBoundingClientRect().width, rate: get("bandwidth_gb_s") };
    svg.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  svg.addEventListener("pointermove", (event) => {
    if (held) moved((held.rate * held.wide) / Math.max(held.wide + event.clientX - held.x, 1));
  });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { held = null; });
}

function render({ model, el }) {
  const get = (name) => model.get(name);
  const parts = frame(el, "dl-timeline", get("case").title,
    "Drag a bucket on the link wider or narrower: the bandwidth follows.", LEGEND);
  const list = make(parts.root, "dl", { class: "dl-numbers" });
  const reasons = make(parts.root, "p", { class: "dl-why" });
  reasons.hidden = !get("recorded").length;
  const sliders = {};
  const show = () => {
    const given = inputs(get);
    const [run, apart] = [true, false].map((overlap) => simulate({ ...given, overlap }));
    draw(parts.svg, run, apart, get("recorded"));
    numbers(list, run, apart);
    const text = `A step takes ${seconds(run.step_time)} with ${run.buckets.length} bucket${run.buckets.length === 1 ? "" : "s"}; `
      + `communication adds ${seconds(run.exposed)}.`;
    parts.status.textContent = text;
    const measured = get("measured");
    const there = Object.keys(measured).every((name) => Math.abs(get(name) - measured[name]) < 1e-9);
    if (get("recorded").length) reasons.textContent = there ? why(run, get("recorded")) : elsewhere(measured, get("recorded"));
    parts.svg.setAttribute("aria-label", `${get("case").title}. ${text}`);
  };
  const lets = SLIDERS.map(([name, label, { min, max, step, to, from, words }]) => {
    const options = { min, max, step, value: to(get(name)), words: (p) => words(from(p)) };
    sliders[name] = slider(parts.controls, label, options, (p) => { tell(model, name, from(p)); show(); });
    return follow(model, name, (value) => { sliders[name].set(to(value)); show(); });
  });
  const best = make(parts.controls, "button", { type: "button" }, "Best bucket size");
  best.addEventListener("click", () => {
    const size = bestBucket(inputs(get), SIZES);
    sliders.bucket_mib.set(Math.log2(size));
    tell(model, "bucket_mib", size);
    show();
  });
  if (Object.keys(get("measured")).length) {
    make(parts.controls, "button", { type: "button" }, "As recorded").addEventListener("click", () => {
      for (const [name, value] of Object.entries(get("measured"))) {
        const { to } = SLIDERS.find(([slider]) => slider === name)[2];
        sliders[name].set(to(value));
        tell(model, name, value);
      }
      show();
    });
  }
  drag(parts.svg, get, (rate) => {
    const within = Math.min(512, Math.max(1 / 128, rate));
    sliders.bandwidth_gb_s.set(Math.log2(within));
    tell(model, "bandwidth_gb_s", within);
    show();
  });
  lets.push(live(parts, show));
  return () => lets.forEach((let_go) => let_go());
}

export default { render };
export { simulate, bestBucket };
