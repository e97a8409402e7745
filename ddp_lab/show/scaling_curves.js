// Efficiency by number of devices, recomputed while the sliders move, beside what was published.
// `efficiency` is ddp_lab.simulate.training for data parallelism: a test holds the two together.

const PLOT = { left: 64, right: 24, top: 26, below: 46, height: 346 };
const LEGEND = [
  ["line dl-a", "all that can overlap does"], ["line dl-c dl-dashed", "nothing overlaps"], ["dot dl-b", "published"],
];
const MIB = 1048576;
const MOST_PARTS = 64;
const DEVICES = Array.from({ length: 11 }, (_, k) => 2 ** k);

// Seconds of a ring over p devices: twice round for an all-reduce, once for half of one.
function ring(n, p, rounds, { per_host, intra, inter }) {
  if (p === 1 || !n) return 0;
  const over = ([alpha, beta]) => rounds * (p - 1) * (alpha + (n / p) * beta);
  if (p <= per_host) return over(intra);
  return per_host > 1 ? Math.max(over(intra), over(inter)) : over(inter);
}

function toServers(n, p, given) {
  if (p === 1 || !n) return 0;
  const servers = given.servers || p;
  const [alpha, beta] = p <= given.per_host ? given.intra : given.inter;
  if (p <= given.per_host) return alpha + n * beta * Math.max(1, p / servers);
  const hosts = p / given.per_host;
  const across = alpha + n * beta * Math.max(1, hosts / servers);
  return Math.max(across, ring(n, given.per_host, 1, given));
}

// Backward with buckets that travel beside it, and come back on a link of their own.
function backwardWith(backward, n_bytes, limit, send, reply, overlap) {
  let now = 0;
  let filled = 0;
  let free_at = 0;
  let ended_at = 0;
  const full = [];
  const launch = (total, at) => {
    free_at = Math.max(at, free_at) + (total ? send(total) : 0);
    ended_at = Math.max(ended_at, free_at) + (total && reply ? reply(total) : 0);
  };
  backward.forEach((seconds, k) => {
    now += seconds;
    filled += n_bytes[k];
    if (filled < limit && k < backward.length - 1) return;
    if (overlap) launch(filled, now);
    else full.push(filled);
    filled = 0;
  });
  full.forEach((total) => launch(total, now));
  return Math.max(now, ended_at);
}

// A pass whose parameters are fetched one layer ahead; cf. simulate.zero.fetched.
function fetched(compute, gather, scatter, overlap) {
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  if (!overlap) return sum(compute) + sum(gather) + sum(scatter);
  let link = 0;
  let now = 0;
  let began = 0;
  compute.forEach((seconds, layer) => {
    link = Math.max(link, began) + gather[layer];
    const there = link;
    began = Math.max(now, there);
    if (scatter.length && layer) link = Math.max(link, now) + scatter[layer - 1];
    now = began + seconds;
  });
  if (scatter.length) link = Math.max(link, now) + scatter.at(-1);
  return Math.max(link, now);
}

function efficiency(given, p, overlap) {
  const backward = given.forward.map((s) => 2 * s).reverse();
  const n_bytes = [...given.n_bytes].reverse();
  const forward = given.forward.reduce((a, b) => a + b, 0);
  const limit = given.bucket_mib * MIB;
  if (given.strategy === "zero3") {
    const gather = n_bytes.map((n) => ring(n, p, 1, given));
    const step = fetched(given.forward, [...gather].reverse(), [], overlap) + fetched(backward, gather, gather, overlap);
    return (3 * forward) / step;
  }
  let took;
  if (given.strategy === "parameter_server") {
    const parts = n_bytes.map((n) => (limit > 0 ? Math.min(MOST_PARTS, Math.max(1, Math.ceil(n / limit))) : 1));
    const each = parts.flatMap((count, k) => Array(count).fill(n_bytes[k] / count));
    const seconds = parts.flatMap((count, k) => [backward[k], ...Array(count - 1).fill(0)]);
    const send = (n) => toServers(n, p, given);
    took = backwardWith(seconds, each, limit, send, send, overlap);
  } else {
    took = backwardWith(backward, n_bytes, limit, (n) => ring(n, p, 2, given), null, overlap);
  }
  return (3 * forward) / (forward + took);
}

function inputs(get) {
  const model = get("models")[get("model")];
  return {
    ...model, strategy: get("strategy"), servers: get("servers"), bucket_mib: get("bucket_mib"),
    inter: [get("latency_us") * 1e-6, 8e-9 / get("gbit")],
  };
}

const percent = (share) => `${Math.round(1000 * share) / 10} %`;

function drawCurves(svg, given, devices, curves) {
  svg.replaceChildren();
  const { width, height } = room(svg, PLOT.height);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const right = width - PLOT.right;
  const foot = height - PLOT.below;
  const x = (p) => PLOT.left + ((right - PLOT.left) * Math.log2(p)) / Math.log2(DEVICES.at(-1));
  const y = (share) => foot - (foot - PLOT.top) * share;
  for (const share of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
    make(svg, "line", { class: "dl-grid", x1: PLOT.left, y1: y(share), x2: right, y2: y(share) });
    make(svg, "text", { class: "dl-small", x: PLOT.left - 8, y: y(share) + 4, "text-anchor": "end" }, percent(share));
  }
  for (const p of DEVICES.filter((_, k) => right > 480 || k % 2 === 0)) {
    make(svg, "text", { class: "dl-small", x: x(p), y: foot + 18, "text-anchor": "middle" }, String(p));
  }
  make(svg, "path", { class: "dl-axis", d: path([[PLOT.left, PLOT.top], [PLOT.left, foot], [right, foot]]) });
  make(svg, "text", { class: "dl-small", x: PLOT.left, y: 12 }, "efficiency");
  make(svg, "text", { class: "dl-small", x: right, y: foot + 36, "text-anchor": "end" }, "devices");
  make(svg, "line", { class: "dl-mark", x1: x(devices), y1: PLOT.top, x2: x(devices), y2: foot });
  for (const { name, shares, hue, dash } of curves) {
    make(svg, "path", { class: hue, d: path(DEVICES.map((p, i) => [x(p), y(shares[i])])), "stroke-dasharray": dash, "data-curve": name });
  }
  for (const [p, share, source] of given.points) {
    const dot = make(svg, "circle", { class: "dl-b", cx: x(p), cy: y(share), r: 6, "data-point": p });
    make(dot, "title", {}, `${source}: ${percent(share)} on ${p} devices`);
  }
}

const POWER = (low, high, words) => ({ min: Math.log2(low), max: Math.log2(high), step: 0.25, to: Math.log2, from: (p) => 2 ** p, words });
const SLIDERS = [
  ["devices", "Devices", { ...POWER(1, 1024, (v) => String(v)), step: 1 }],
  ["gbit", "Link between hosts", POWER(1, 3200, (v) => `${short(v)} Gb/s`)],
  ["latency_us", "Latency", POWER(0.5, 1024, (v) => `${short(v)} µs`)],
  ["bucket_mib", "Bucket size", POWER(1 / 16, 1024, (v) => bytes(v * MIB))],
  ["servers", "Servers", {
    min: 0, max: 10, step: 1, to: (v) => (v ? Math.log2(v) + 1 : 0), from: (p) => (p ? 2 ** (p - 1) : 0),
    words: (v) => (v ? String(v) : "one a device"),
  }],
];
const STRATEGIES = [["all_reduce", "ring all-reduce"], ["parameter_server", "parameter servers"], ["zero3", "ZeRO, stage 3"]];

function render({ model, el }) {
  const get = (name) => model.get(name);
  const title = get("title");
  const parts = frame(el, "dl-scaling", title,
    "Throughput over that of as many devices alone, by the number of devices.", LEGEND);
  const sliders = {};
  const show = () => {
    const given = inputs(get);
    const curve = (overlap) => DEVICES.map((p) => efficiency(given, p, overlap));
    drawCurves(parts.svg, given, get("devices"), [
      { name: "with overlap", shares: curve(true), hue: "dl-a", dash: "none" },
      { name: "without", shares: curve(false), hue: "dl-c", dash: "7 4" },
    ]);
    sliders.servers.hide(get("strategy") !== "parameter_server");
    const [best, worst] = [true, false].map((overlap) => efficiency(given, get("devices"), overlap));
    const cited = given.points.map(([p, share]) => `${percent(share)} on ${p}`).join(", ");
    const text = `${get("model")} on ${get("devices")} devices: ${percent(best)} with overlap, ${percent(worst)} without. `
      + `Published: ${cited} (${given.source}).`;
    parts.status.textContent = text;
    parts.svg.setAttribute("aria-label", `${title}. ${text}`);
  };
  const set = (name, value) => {
    tell(model, name, value);
    if (sliders[name]) sliders[name].set(SLIDERS.find(([known]) => known === name)[2].to(value));
  };
  const models = choice(parts.controls, "Model", Object.keys(get("models")).map((n) => [n, n]), get("model"), (name) => {
    tell(model, "model", name);
    for (const [key, value] of Object.entries(get("models")[name].run)) set(key, value);
    strategies.value = get("strategy");
    show();
  });
  const strategies = choice(parts.controls, "Strategy", STRATEGIES, get("strategy"), (name) => { tell(model, "strategy", name); show(); });
  const lets = SLIDERS.map(([name, label, { to, from, words, ...range }]) => {
    const options = { ...range, value: to(get(name)), words: (p) => words(from(p)) };
    sliders[name] = slider(parts.controls, label, options, (p) => { tell(model, name, from(p)); show(); });
    return follow(model, name, (value) => { sliders[name].set(to(value)); show(); });
  });
  lets.push(follow(model, "model", (name) => { models.value = name; show(); }));
  lets.push(follow(model, "strategy", (name) => { strategies.value = name; show(); }));
  lets.push(live(parts, show));
  return () => lets.forEach((let_go) => let_go());
}

export default { render };
export { efficiency };
