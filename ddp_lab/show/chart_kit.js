// What the charts share: elements, sliders, numbers in words. Each chart's module is this file and
// its own, one after the other: no imports, no requests.

const WIDTH = 860; // units of a picture across, where the page has room for them
const LEAST = 330; // and on a phone; a unit is a pixel there
const UNIT = 1.7; // pixels of a unit in a hall: words of 12 units are 20 pixels
const HUES = ["dl-a", "dl-b", "dl-c", "dl-d"];
const DASHES = ["none", "7 4", "2 3"];
// A line is thinner than those below it: where they run together, each is seen.
const WIDTHS = [5, 3.4, 2.1, 1.1];

// The look of the k-th line: a hue, a width and a dash, for hue alone is not seen by everybody.
function look(k) {
  const dash = DASHES[Math.floor(k / HUES.length) % DASHES.length];
  return { hue: HUES[k % HUES.length], style: `stroke-dasharray: ${dash}; stroke-width: ${WIDTHS[k % WIDTHS.length]}`, width: WIDTHS[k % WIDTHS.length] };
}

// A place for what may be wider than the page.
function scroller(parent, name) {
  const box = make(parent, "div", { class: "dl-wide", role: "group", "aria-label": name });
  scrolls(box);
  return box;
}

function frame(el, name, title, note, entries = []) {
  const root = make(el, "div", {
    class: `dl-chart ${name}`, role: "group", "aria-label": title, "data-lm-suppress-shortcuts": "true",
  });
  const head = make(root, "h3", {}, title);
  if (note) make(root, "p", { class: "dl-note" }, note);
  if (entries.length) drawLegend(make(root, "ul", { class: "legend", "aria-label": "Legend" }), entries);
  const controls = make(root, "div", { class: "dl-controls" });
  const stage = scroller(root, "Picture");
  stage.classList.add("hall-stage");
  const svg = make(stage, "svg", { viewBox: `0 0 ${WIDTH} 200`, role: "img", "aria-label": title });
  const status = make(root, "p", { role: "status", "aria-live": "polite" });
  return { root, head, controls, stage, svg, status };
}

// How many units a picture may be across, and up in a hall; `height` is what it takes on a page.
function room(svg, height, least = LEAST) {
  const stage = svg.parentNode;
  if (inHall(stage.parentNode)) return { width: stage.clientWidth / UNIT, height: stage.clientHeight / UNIT };
  svg.style.minWidth = `${least}px`;
  return { width: Math.max(least, Math.min(WIDTH, stage.clientWidth || WIDTH)), height };
}

// How far apart rows stand: as on a page, or so that a hall has room for all of them.
function pitchOf(svg, count, pitch, rest) {
  const { height } = room(svg, Infinity);
  return height === Infinity ? pitch : Math.max(15, Math.min(1.6 * pitch, (height - rest) / count));
}

// Show a chart, and again whenever its place has another size; returns a function that lets go.
function live({ root, controls, stage, svg }, show) {
  let known = "";
  const look = () => {
    const now = `${stage.clientWidth} ${inHall(root) && stage.clientHeight}`;
    if (now !== known) show();
    known = now;
    fit(root, svg, stage);
  };
  hall(root, controls, look);
  root.addEventListener("keydown", (event) => { // arrows that nobody has asked for move the first slider
    const first = controls.querySelector('input[type="range"]:not(:disabled)');
    if (event.target !== root || !first || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    first.focus();
    first.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, cancelable: true }));
  });
  const sized = new ResizeObserver(look);
  const drawn = new MutationObserver(() => fit(root, svg, stage));
  show();
  sized.observe(stage);
  drawn.observe(svg, { attributes: true, attributeFilter: ["viewBox"] });
  return () => { sized.disconnect(); drawn.disconnect(); };
}

// A labelled slider; `words` tells a position to people, on the page and to a screen reader.
function slider(controls, label, { min, max, step, value, words }, changed) {
  const box = make(controls, "label", { class: "dl-slider" });
  make(box, "span", {}, label);
  const input = make(box, "input", { type: "range", min, max, step, "aria-label": label });
  const said = make(box, "output");
  const show = (position) => {
    const text = words(position);
    said.textContent = text;
    input.setAttribute("aria-valuetext", text);
  };
  const set = (position) => { input.value = String(position); show(position); };
  input.addEventListener("input", () => { show(Number(input.value)); changed(Number(input.value)); });
  // JupyterLab keeps arrow keys from a native slider: so they are taken here.
  input.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!steps) return;
    event.preventDefault();
    event.stopPropagation();
    input.stepUp(steps);
    input.dispatchEvent(new Event("input"));
  });
  set(value);
  return { input, set, hide: (hidden) => { box.hidden = hidden; } };
}

function choice(controls, label, options, value, changed) {
  const box = make(controls, "label", { class: "dl-slider dl-choice" });
  make(box, "span", {}, label);
  const select = make(box, "select", { "aria-label": label });
  for (const [key, text] of options) make(select, "option", { value: key }, text);
  select.value = value;
  select.addEventListener("change", () => changed(select.value));
  return select;
}

// Whether a word stands inside a box of so many units across.
const fitsIn = (word, width) => width > 7.8 * word.length + 0.6;

function short(x) {
  const size = Math.abs(x);
  if (size >= 1e6 || (size < 1e-4 && size > 0)) return x.toExponential(2).replace(/\.?0*e\+?/, "e");
  return String(Number(x.toPrecision(3)));
}

function seconds(s) {
  if (s >= 1) return `${short(s)} s`;
  return s >= 1e-3 ? `${short(s * 1e3)} ms` : `${short(s * 1e6)} µs`;
}

// A bandwidth that is known in GB a second.
const bandwidth = (gb) => (gb < 1 ? `${short(1000 * gb)} MB/s` : `${short(gb)} GB/s`);

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let k = 0;
  while (n >= 1024 && k < units.length - 1) { n /= 1024; k += 1; }
  return `${short(n)} ${units[k]}`;
}

// Round numbers from 0 to at most `limit`: 1, 2 or 5 times a power of ten apart.
function ticks(limit, most = 8) {
  if (!(limit > 0)) return [0];
  const power = 10 ** Math.floor(Math.log10(limit / most));
  const width = [1, 2, 5, 10].map((f) => f * power).find((w) => limit / w <= most);
  return Array.from({ length: Math.floor(limit / width + 1e-9) + 1 }, (_, k) => k * width);
}

// Round numbers from `low` to `high`, as `ticks` has them.
function between(low, high, most) {
  const [, width] = ticks(high - low, most);
  if (!width) return [low];
  const first = Math.ceil(low / width - 1e-9);
  return Array.from({ length: Math.floor(high / width + 1e-9) - first + 1 }, (_, k) => (first + k) * width);
}

function path(points) {
  return points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

// Keep a synced value and the model in step, both ways; returns a function that lets go.
function follow(model, name, heard) {
  const listen = () => heard(model.get(name));
  model.on(`change:${name}`, listen);
  return () => model.off(`change:${name}`, listen);
}

function tell(model, name, value) {
  model.set(name, value);
  model.save_changes();
}
