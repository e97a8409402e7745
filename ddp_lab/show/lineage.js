// A machine is lost: what lineage makes again, and what ranks of an all-reduce do again.
// `madeAgain` and `begunAgain` are those of ddp_lab.show.lineage: a test holds them together.

const GRID = { side: 38, gap: 5, top: 52, left: 92, between: 36, lost: 1 };
const every = (step, period) => period > 0 && step % period === 0;
const key = (machine, step) => `${machine} ${step}`;

function madeAgain({ partitions, steps, shuffle, cached, stored }) {
  const found = new Set();
  const waiting = [[GRID.lost, steps]];
  while (waiting.length) {
    const [partition, step] = waiting.pop();
    found.add(key(partition, step));
    const before = step - 1;
    if (before === 0 || every(before, stored)) continue;
    const parents = every(step, shuffle) ? Array.from({ length: partitions }, (_, p) => p) : [partition];
    for (const p of parents) {
      const gone = p === GRID.lost || !every(before, cached);
      if (gone && !found.has(key(p, before))) waiting.push([p, before]);
    }
  }
  return found;
}

function begunAgain({ partitions, steps, stored }) {
  const found = new Set();
  const first = stored > 0 ? Math.floor((steps - 1) / stored) * stored : 0;
  for (let rank = 0; rank < partitions; rank += 1) {
    for (let step = first + 1; step <= steps; step += 1) found.add(key(rank, step));
  }
  return found;
}

function grid(svg, left, top, side, name, again, given) {
  const pitch = side + GRID.gap;
  const { partitions, steps, shuffle, cached, stored } = given;
  make(svg, "text", { x: left, y: top - 32 }, `${name}: ${again.size} again`);
  for (let step = 1; step <= steps; step += 1) {
    const marks = [every(step, stored) ? "disk" : "", name === "lineage" && every(step, shuffle) ? "all" : ""].filter(Boolean);
    const x = left + GRID.left + (step - 0.5) * pitch - GRID.gap / 2;
    make(svg, "text", { class: "dl-small", x, y: top - 8, "text-anchor": "middle" }, marks[0] || String(step));
  }
  for (let machine = 0; machine < partitions; machine += 1) {
    const y = top + machine * pitch;
    const words = machine === GRID.lost ? "lost" : `machine ${machine}`;
    make(svg, "text", { class: "dl-small", x: left, y: y + side / 2 + 5 }, words);
    for (let step = 1; step <= steps; step += 1) {
      const redone = again.has(key(machine, step));
      const held = name === "lineage" && every(step, cached) && machine !== GRID.lost;
      const box = make(svg, "rect", {
        class: redone ? "dl-b" : held || every(step, stored) || (name === "lineage" && step === steps) ? "dl-c" : "dl-a",
        x: left + GRID.left + (step - 1) * pitch, y, width: side, height: side, rx: 3, "data-again": redone,
      });
      make(box, "title", {}, `machine ${machine}, step ${step}${redone ? ": done again" : ""}`);
    }
  }
}

function draw(svg, given, sets) {
  const { width, height } = room(svg, Infinity);
  const beside = width >= 2 * (GRID.left + given.steps * 20) + GRID.between && (width > 560 || height !== Infinity);
  const across = beside ? (width - GRID.between) / 2 : width;
  const rows = beside ? given.partitions : 2 * given.partitions;
  const heads = beside ? GRID.top : 2 * GRID.top + 20;
  const up = height === Infinity ? GRID.side : (height - heads - 10) / rows - GRID.gap;
  const side = Math.max(14, Math.min(64, (across - GRID.left) / given.steps - GRID.gap, height === Infinity ? GRID.side : up));
  const tall = GRID.top + given.partitions * (side + GRID.gap);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${beside ? tall : 2 * tall + 20}`);
  ["lineage", "all-reduce"].forEach((name, k) => {
    grid(svg, beside ? k * (across + GRID.between) : 0, GRID.top + (beside ? 0 : k * (tall + 20)), side, name, sets[k], given);
  });
}

const period = (v) => (v === 0 ? "never" : v === 1 ? "every step" : `every ${v} steps`);
const SLIDERS = [
  ["steps", "Steps done", { min: 1, max: 8, step: 1, words: (v) => `${v} step${v === 1 ? "" : "s"}` }],
  ["partitions", "Machines", { min: 2, max: 8, step: 1, words: (v) => `${v} machines` }],
  ["shuffle", "A step reads all", { min: 0, max: 8, step: 1, words: period }],
  ["cached", "Kept in memory", { min: 0, max: 8, step: 1, words: period }],
  ["stored", "Stored on disk", { min: 0, max: 8, step: 1, words: period }],
];

function render({ model, el }) {
  const get = (name) => model.get(name);
  const title = get("title");
  const note = "Columns are steps. Lineage makes what is lost from what is still there; after an all-reduce every rank needs all others, so all go back.";
  const parts = frame(el, "dl-lineage", title, note, [["dl-a", "done, not kept"], ["dl-c", "still there"], ["dl-b", "done again"]]);
  const show = () => {
    const given = Object.fromEntries(SLIDERS.map(([name]) => [name, get(name)]));
    const sets = [madeAgain(given), begunAgain(given)];
    draw(parts.svg, given, sets);
    const whole = given.steps * given.partitions;
    const text = `Machine ${GRID.lost} is lost after step ${given.steps}: of ${whole} pieces of work lineage does ${sets[0].size} again, all-reduce ${sets[1].size}.`;
    parts.status.textContent = text;
    parts.svg.setAttribute("aria-label", `${title} ${text}`);
  };
  const lets = SLIDERS.map(([name, label, options]) => {
    const one = slider(parts.controls, label, { ...options, value: get(name) }, (v) => { tell(model, name, v); show(); });
    return follow(model, name, (v) => { one.set(v); show(); });
  });
  lets.push(live(parts, show));
  return () => lets.forEach((let_go) => let_go());
}

export default { render };
export { madeAgain, begunAgain };
