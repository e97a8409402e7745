// Curves of several runs, drawn while they grow. Model: `runs`, {name: [[x, y], ...]}.

const AREA = { left: 64, right: 16, top: 14, bottom: 40, height: 340 };

// An exponential mean that begins at the first point, not at zero.
function smoothed(points, weight) {
  let mean = 0;
  let total = 0;
  return points.map(([x, y]) => {
    mean = weight * mean + (1 - weight) * y;
    total = weight * total + (1 - weight);
    return [x, mean / total];
  });
}

function usable(points, logarithmic) {
  return points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y) && (!logarithmic || y > 0));
}

function scale(low, high, from, to) {
  const width = high - low || 1;
  return (v) => from + ((to - from) * (v - low)) / width;
}

function range(values) {
  return values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
}

// Powers of ten between two logarithms, ten of them at most; with 2 and 5 times these where there
// are few; any round numbers where even these are fewer than two.
function decades(low, high) {
  const factors = high - low < 2 ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil((high - low) / 10));
  const first = Math.floor(low / every) * every;
  const powers = Array.from({ length: Math.ceil((high - first) / every) + 1 }, (_, k) => first + k * every);
  const found = powers.flatMap((power) => factors.map((f) => power + Math.log10(f))).filter((v) => v >= low && v <= high);
  return found.length > 1 ? found : between(10 ** low, 10 ** high, 6).map(Math.log10);
}

function axes(svg, model, [low_x, high_x], [low_y, high_y], x, y, logarithmic) {
  const { width, height } = room(svg, AREA.height);
  const right = width - AREA.right;
  const foot = height - AREA.bottom;
  const levels = logarithmic
    ? decades(low_y, high_y)
    : between(low_y, high_y, 6);
  for (const level of levels) {
    make(svg, "line", { class: "dl-grid", x1: AREA.left, y1: y(level), x2: right, y2: y(level) });
    const text = short(logarithmic ? 10 ** level : level);
    make(svg, "text", { class: "dl-small", x: AREA.left - 8, y: y(level) + 4, "text-anchor": "end" }, text);
  }
  for (const tick of between(low_x, high_x, 8)) {
    make(svg, "text", { class: "dl-small", x: x(tick), y: foot + 18, "text-anchor": "middle" }, short(tick));
  }
  make(svg, "path", { class: "dl-axis", d: path([[AREA.left, AREA.top], [AREA.left, foot], [right, foot]]) });
  make(svg, "text", { class: "dl-small", x: right, y: foot + 34, "text-anchor": "end" }, model.get("x_label"));
  make(svg, "text", { class: "dl-small", x: AREA.left + 6, y: AREA.top + 4 }, model.get("y_label"));
}

function drawAll(svg, model, hidden, weight, logarithmic) {
  svg.replaceChildren();
  const runs = Object.entries(model.get("runs")).map(([name, points], k) => ({ name, k, points: usable(points, logarithmic) }))
    .filter(({ name, points }) => points.length && !hidden.has(name));
  const height = (v) => (logarithmic ? Math.log10(v) : v);
  const spans = [range(runs.flatMap((r) => r.points.map((p) => p[0]))), range(runs.flatMap((r) => r.points.map((p) => height(p[1]))))];
  const size = room(svg, AREA.height);
  svg.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
  const x = scale(...spans[0], AREA.left, size.width - AREA.right);
  const y = scale(...spans[1], size.height - AREA.bottom, AREA.top + 10);
  axes(svg, model, ...spans, x, y, logarithmic);
  for (const { name, k, points } of runs) {
    const { hue, style, width } = look(k);
    const place = ([px, py]) => [x(px), y(height(py))];
    const line = (list, extra) => make(svg, "path", { class: hue + extra, d: path(list.map(place)), style: extra ? "" : style });
    if (weight > 0) line(points, " dl-faint");
    const curve = line(usable(smoothed(points, weight), logarithmic), "");
    curve.setAttribute("data-run", name);
    make(curve, "title", {}, name);
    const [px, py] = place(smoothed(points, weight).at(-1));
    make(svg, "circle", { class: hue, cx: px, cy: py, r: 2 + width });
  }
}

function render({ model, el }) {
  const parts = frame(el, "dl-curves", model.get("title"), "A line a run; the dot is where it stands.");
  const legend = make(parts.root, "div", { class: "dl-runs", role: "group", "aria-label": "Runs" });
  const hidden = new Set();
  const notes = new Map(); // the words of each run
  let weight = 0;
  let logarithmic = model.get("log_y");
  let asked = 0;
  const show = () => {
    asked = 0;
    drawAll(parts.svg, model, hidden, weight, logarithmic);
    const last = Object.entries(model.get("runs")).map(([name, points]) => [name, usable(points, false).at(-1)])
      .filter(([, point]) => point).map(([name, [x, y]]) => `${name} ${short(y)} at ${short(x)}`);
    const text = last.length ? `${model.get("y_label")}: ${last.join("; ")}.` : "Nothing yet.";
    parts.svg.setAttribute("aria-label", `${model.get("title")}. ${text}`);
    parts.status.textContent = text;
  };
  const soon = () => { if (!asked) asked = window.setTimeout(show, 50); };
  const names = () => {
    Object.keys(model.get("runs")).slice(legend.childElementCount).forEach((name) => {
      const k = legend.childElementCount;
      const label = make(legend, "label");
      const box = make(label, "input", { type: "checkbox" });
      box.checked = true;
      box.addEventListener("change", () => { box.checked ? hidden.delete(name) : hidden.add(name); show(); });
      const { hue, style } = look(k);
      const svg = make(label, "svg", { viewBox: "0 0 34 12", "aria-hidden": "true" });
      make(svg, "line", { class: hue, x1: 1, y1: 6, x2: 33, y2: 6, style });
      notes.set(name, make(label, "span"));
    });
    for (const [name, words] of notes) words.textContent = ` ${[name, model.get("notes")[name]].filter(Boolean).join(": ")}`;
  };
  slider(parts.controls, "Smoothing", { min: 0, max: 0.98, step: 0.02, value: 0, words: (v) => (v ? short(v) : "none") },
    (v) => { weight = v; show(); });
  const label = make(parts.controls, "label");
  const box = make(label, "input", { type: "checkbox" });
  box.checked = logarithmic;
  make(label, "span", {}, " Logarithmic");
  box.addEventListener("change", () => { logarithmic = box.checked; show(); });
  parts.status.setAttribute("aria-live", "off"); // it changes with every step of training
  const lets = [follow(model, "runs", () => { names(); soon(); }), follow(model, "notes", names)];
  names();
  const end = live(parts, show);
  return () => { lets.forEach((let_go) => let_go()); end(); window.clearTimeout(asked); };
}

export default { render };
