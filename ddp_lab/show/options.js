// Ways to train with several workers: time, memory and quality of each, as bars.
// `rows` is ddp_lab.show.options.rows: a test holds the two together. The quality was trained.

const BARS = { row: 62, top: 50, bar: 24, gap: 20, left: 4 };
const FACTS = { steps: 600, microbatches: 8, data: 2 ** 30, activations: 8 * 2 ** 20, copies: 4, alpha: 20e-6 };
const NAMES = {
  copies: "copies, other hyperparameters", end: "parts of the data, averaged at the end",
  each: "parts of the data, gradients averaged", model: "parts of the model, a pipeline",
};
const WORKERS = [1, 2, 4, 8];

function rows({ workers, batch, model, bandwidth }) {
  const whole = FACTS.steps * batch;
  const held = FACTS.copies * model;
  const ring = 2 * (workers - 1) * (FACTS.alpha + model / workers / bandwidth);
  const bubble = (FACTS.microbatches + workers - 1) / FACTS.microbatches;
  const cut = workers > 1 ? 2 * (FACTS.alpha * FACTS.microbatches + FACTS.activations / bandwidth) : 0;
  const part = FACTS.data / workers;
  return {
    copies: [whole, 0, held + FACTS.data],
    end: [whole / workers, ring, held + part],
    each: [whole / workers, FACTS.steps * ring, held + part],
    model: [(whole / workers) * bubble, FACTS.steps * cut, held / workers + FACTS.activations],
  };
}

function bar(svg, x, y, tall, parts, words) {
  let at = x;
  for (const [hue, width, title] of parts) {
    const one = make(svg, "rect", { class: hue, x: at, y, width: Math.max(width, 0.5), height: tall });
    make(one, "title", {}, title);
    at += width;
  }
  make(svg, "text", { class: "dl-small", x, y: y + tall + 15 }, words);
}

function draw(svg, table, quality, workers) {
  const { width, height } = room(svg, Infinity);
  const row = height === Infinity ? BARS.row + 8 : Math.max(72, Math.min(110, (height - BARS.top) / 4));
  const wide = (width - 2 * BARS.left - 2 * BARS.gap) / 3;
  const tall = Math.max(BARS.bar, row - 50);
  const longest = Math.max(...Object.values(table).map(([c, s]) => c + s));
  const largest = Math.max(...Object.values(table).map(([, , m]) => m));
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${BARS.top + 4 * row}`);
  const heads = width < 560 ? ["time", "memory", "right"] : ["time, simulated", "memory of a worker", "right, as trained"];
  heads.forEach((head, k) => make(svg, "text", { x: BARS.left + k * (wide + BARS.gap), y: 16 }, head));
  Object.entries(table).forEach(([way, [compute, send, memory]], place) => {
    const y = BARS.top + place * row;
    const at = (k) => BARS.left + k * (wide + BARS.gap);
    make(svg, "text", { class: "dl-small", x: BARS.left, y: y - 7 }, NAMES[way]);
    const scale = (0.98 * wide) / longest;
    const parts = [["dl-a", compute * scale, `computing: ${seconds(compute)}`], ["dl-b", send * scale, `communication: ${seconds(send)}`]];
    bar(svg, at(0), y, tall, parts, seconds(compute + send));
    bar(svg, at(1), y, tall, [["dl-c", (0.98 * wide * memory) / largest, "memory"]], bytes(memory));
    const share = quality[way][workers];
    bar(svg, at(2), y, tall, [["dl-d", 0.98 * wide * share, "right"]], `${short(100 * share)} %`);
  });
}

function render({ model, el }) {
  const get = (name) => model.get(name);
  const [title, quality] = [get("title"), get("quality")];
  const note = "The same number of steps each way, on the same data. Copies search hyperparameters: the best one counts.";
  const parts = frame(el, "dl-options", title, note, [["dl-a", "computing"], ["dl-b", "communication"], ["dl-c", "memory"], ["dl-d", "quality"]]);
  const show = () => {
    const workers = get("workers");
    const given = { workers, batch: get("batch_ms") / 1e3, model: get("model_mib") * 2 ** 20, bandwidth: get("gbytes") * 1e9 };
    const table = rows(given);
    draw(parts.svg, table, quality, workers);
    const took = Object.entries(table).map(([way, [c, s]]) => [way, c + s]);
    const [fastest, least] = took.reduce((best, one) => (one[1] < best[1] ? one : best));
    const text = `${workers} worker${workers === 1 ? "" : "s"}: fastest are ${NAMES[fastest]} with ${seconds(least)} and ${short(100 * quality[fastest][workers])} % right; gradients averaged in each step take ${seconds(took[2][1])} and have ${short(100 * quality.each[workers])} %.`;
    parts.status.textContent = text;
    parts.svg.setAttribute("aria-label", `${title}. ${text}`);
  };
  const over = (name, label, range, to, from, words) => {
    const one = slider(parts.controls, label, { ...range, value: to(get(name)), words: (p) => words(from(p)) }, (p) => { tell(model, name, from(p)); show(); });
    return follow(model, name, (v) => { one.set(to(v)); show(); });
  };
  const power = [Math.log2, (p) => 2 ** p];
  const lets = [
    over("workers", "Workers", { min: 0, max: 3, step: 1 }, (v) => WORKERS.indexOf(v), (p) => WORKERS[p], (v) => `${v} worker${v === 1 ? "" : "s"}`),
    over("model_mib", "Parameters", { min: 0, max: 14, step: 1 }, ...power, (v) => bytes(v * 2 ** 20)),
    over("gbytes", "Link", { min: -4, max: 8, step: 1 }, ...power, bandwidth),
    over("batch_ms", "A step on one worker", { min: 0, max: 12, step: 1 }, ...power, (v) => seconds(v / 1e3)),
  ];
  lets.push(live(parts, show));
  return () => lets.forEach((let_go) => let_go());
}

export default { render };
export { rows };
