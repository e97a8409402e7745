// Collectives by algorithm and number of ranks: steps, bytes, and the time that follows from them.
//
// A row has what one run of the algorithm on the virtual clock showed: `steps` is its time at one
// second a message, `share` its time at one second an array, both along the longest chain; time
// is steps * alpha + share * n * beta.

const PLOT = { left: 70, right: 20, top: 26, bottom: 40, height: 360 };
const SMALL = 10;
const LARGE = 30;

function timeOf(row, n, alpha, bytes_per_s) {
  return row.steps * alpha + (row.share * n) / bytes_per_s;
}

function sample(cell, k) {
  const { hue, style } = look(k);
  const svg = make(cell, "svg", { viewBox: "0 0 34 12", "aria-hidden": "true" });
  make(svg, "line", { class: hue, x1: 1, y1: 6, x2: 33, y2: 6, style });
}

// The points that were measured, where the controls are as they were then.
function measured(recorded, state) {
  const here = ["collective", "ranks", "latency_us", "bandwidth_gb_s"].every((name) => {
    const [was, is] = [recorded[name], state[name]];
    return typeof was === "number" ? Math.abs(was / is - 1) < 1e-6 : was === is;
  });
  return here ? recorded.points : [];
}

function plot(svg, rows, state, timed) {
  svg.replaceChildren();
  const rates = [state.alpha, state.bytes_per_s];
  const sizes = Array.from({ length: LARGE - SMALL + 1 }, (_, k) => 2 ** (SMALL + k));
  const all = rows.flatMap((row) => [timeOf(row, sizes[0], ...rates), timeOf(row, sizes.at(-1), ...rates)]);
  const low = Math.floor(Math.log10(Math.min(...all)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...all))), low + 1);
  const { width, height } = room(svg, PLOT.height);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const right = width - PLOT.right;
  const foot = height - PLOT.bottom;
  const x = (n) => PLOT.left + ((right - PLOT.left) * (Math.log2(n) - SMALL)) / (LARGE - SMALL);
  const y = (s) => foot - ((foot - PLOT.top) * (Math.log10(s) - low)) / (high - low);
  for (let power = low; power <= high; power++) {
    const at = y(10 ** power);
    make(svg, "line", { class: "dl-grid", x1: PLOT.left, y1: at, x2: right, y2: at });
    make(svg, "text", { class: "dl-small", x: PLOT.left - 8, y: at + 4, "text-anchor": "end" }, seconds(10 ** power));
  }
  for (let power = SMALL; power <= LARGE; power += 5) {
    const at = x(2 ** power);
    make(svg, "line", { class: "dl-grid", x1: at, y1: PLOT.top, x2: at, y2: foot });
    make(svg, "text", { class: "dl-small", x: at, y: foot + 18, "text-anchor": "middle" }, bytes(2 ** power));
  }
  make(svg, "path", { class: "dl-axis", d: path([[PLOT.left, PLOT.top], [PLOT.left, foot], [right, foot]]) });
  make(svg, "text", { class: "dl-small", x: PLOT.left, y: 12 }, "time, predicted");
  make(svg, "text", { class: "dl-small", x: right, y: foot + 34, "text-anchor": "end" }, "size of the array");
  rows.forEach((row, k) => {
    const { hue, style } = look(k);
    const points = sizes.map((n) => [x(n), y(timeOf(row, n, ...rates))]);
    const line = make(svg, "path", { class: hue, d: path(points), style, "data-algorithm": row.algorithm });
    make(line, "title", {}, row.algorithm);
    for (const point of timed.filter((p) => p.algorithm === row.algorithm)) {
      const dot = make(svg, "circle", { class: hue, cx: x(point.n), cy: y(point.seconds), r: 5, "data-measured": row.algorithm });
      make(dot, "title", {}, `${row.algorithm}, ${bytes(point.n)}: ${seconds(point.seconds)} measured`);
    }
  });
  make(svg, "line", { class: "dl-mark", x1: x(state.n), y1: PLOT.top, x2: x(state.n), y2: foot });
}

function list(table, rows, state, fastest) {
  table.replaceChildren();
  const head = make(table, "tr");
  for (const name of ["algorithm", "steps", "messages", "bytes sent by the busiest rank", "time"]) {
    make(head, "th", { scope: "col" }, name);
  }
  rows.forEach((row, k) => {
    const line = make(table, "tr", row === fastest ? { class: "dl-best" } : {});
    const name = make(line, "td");
    sample(name, k);
    make(name, "span", {}, row === fastest ? `${row.algorithm} (fastest)` : row.algorithm);
    const time = timeOf(row, state.n, state.alpha, state.bytes_per_s);
    for (const text of [short(row.steps), String(row.messages), bytes(row.busiest * state.n), seconds(time)]) {
      make(line, "td", {}, text);
    }
  });
}

function render({ model, el }) {
  const get = (name) => model.get(name);
  const rows = get("rows");
  const names = [...new Set(rows.map((row) => row.collective))];
  const worlds = [...new Set(rows.map((row) => row.ranks))].sort((a, b) => a - b);
  const parts = frame(el, "dl-explorer", "Collectives by algorithm",
    "Steps and bytes are those of the package's own algorithms, run message by message on a virtual clock. Points, where there are some, were timed over a link.");
  const table = make(scroller(parts.root, "Table"), "table", { "aria-label": "Algorithms at this size" });
  const show = () => {
    const state = { n: 2 ** get("size_log2"), alpha: get("latency_us") * 1e-6, bytes_per_s: get("bandwidth_gb_s") * 1e9 };
    for (const name of ["collective", "ranks", "latency_us", "bandwidth_gb_s"]) state[name] = get(name);
    const chosen = rows.filter((row) => row.collective === get("collective") && row.ranks === get("ranks"));
    const time = (row) => timeOf(row, state.n, state.alpha, state.bytes_per_s);
    const fastest = chosen.reduce((best, row) => (time(row) < time(best) * (1 - 1e-9) ? row : best));
    plot(parts.svg, chosen, state, measured(get("recorded"), state));
    list(table, chosen, state, fastest);
    const text = `${get("collective").replace("_", "-")} of ${bytes(state.n)} on ${get("ranks")} ranks: `
      + `${fastest.algorithm} is fastest, ${seconds(time(fastest))}.`;
    parts.status.textContent = text;
    parts.svg.setAttribute("aria-label", `Time by size of the array. ${text}`);
  };
  const select = choice(parts.controls, "Collective", names.map((n) => [n, n.replace("_", "-")]), get("collective"),
    (value) => { tell(model, "collective", value); show(); });
  const knobs = [
    ["ranks", "Ranks", { min: 0, max: worlds.length - 1, step: 1 }, (v) => worlds.indexOf(v), (p) => worlds[p], String],
    ["size_log2", "Size of the array", { min: SMALL, max: LARGE, step: 1 }, (v) => v, (p) => p, (v) => bytes(2 ** v)],
    ["latency_us", "Latency of a message", { min: -1, max: 10, step: 0.5 }, Math.log2, (p) => 2 ** p, (v) => `${short(v)} µs`],
    ["bandwidth_gb_s", "Bandwidth of a link", { min: -4, max: 9, step: 0.5 }, Math.log2, (p) => 2 ** p, bandwidth],
  ];
  const set = [];
  const lets = knobs.map(([name, label, range, to, from, words]) => {
    const options = { ...range, value: to(get(name)), words: (p) => words(from(p)) };
    const knob = slider(parts.controls, label, options, (p) => { tell(model, name, from(p)); show(); });
    set.push(knob.set);
    return follow(model, name, (value) => { knob.set(to(value)); show(); });
  });
  const recorded = get("recorded");
  if (recorded.points) {
    make(parts.controls, "button", { type: "button" }, "As recorded").addEventListener("click", () => {
      tell(model, "collective", select.value = recorded.collective);
      knobs.forEach(([name, , , to], k) => {
        if (!(name in recorded)) return;
        tell(model, name, recorded[name]);
        set[k](to(recorded[name]));
      });
      show();
    });
  }
  lets.push(follow(model, "collective", (value) => { select.value = value; show(); }));
  lets.push(live(parts, show));
  return () => lets.forEach((let_go) => let_go());
}

export default { render };
export { timeOf };
