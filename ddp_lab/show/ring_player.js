// The ring player: a recorded run, played round by round. Plain SVG, no imports, no requests.
//
// Columns of a rank's grid are parts of the array, rows are ranks: a filled square says that this
// rank has seen that rank's contribution to that part. Model: `story` (see story.py) and `round`.

const SVG = "http://www.w3.org/2000/svg";
const RADIUS = 165; // at least; many ranks want more
const MARGIN = { x: 120, y: 70 }; // around the ring, at least
const BARS = { away: 190, y: 90, width: 150, pitch: 34 };
const ROUND_MS = 1100;
// Each widget of a notebook loads a module of its own: none of them can count the others.
const own = (name) => `${name}-${Math.random().toString(36).slice(2, 10)}`;

function make(parent, name, attributes = {}, text = "") {
  const svg = parent.namespaceURI === SVG || name === "svg";
  const node = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  parent.appendChild(node);
  return node;
}

// Where everything stands: sizes follow from the number of ranks and of cells. Between neighbours
// there is room for a message, and the picture is as large as the ring that this takes.
function layout(story) {
  const n = story.world_size;
  const cells = Math.max(story.cuts.length - 1, 0);
  const size = Math.max(5, Math.min(16, Math.floor(72 / Math.max(cells, n, 1))));
  const width = Math.max(cells * size, 30);
  const height = cells ? n * size : 18;
  const apart = Math.hypot(width, height) + 58;
  const radius = n < 3 ? RADIUS : Math.max(RADIUS, apart / 2 / Math.sin(Math.PI / n));
  const centre = { x: radius + Math.max(MARGIN.x, width / 2 + 40), y: radius + Math.max(MARGIN.y, height / 2 + 34) };
  const pitch = Math.max(15, Math.min(BARS.pitch, (2 * centre.y - BARS.y - 40) / n));
  const bars = { x: centre.x + radius + BARS.away, y: BARS.y, width: BARS.width, pitch, height: Math.min(18, pitch - 3) };
  const view = { width: bars.x + 220, height: Math.max(2 * centre.y, bars.y + n * pitch + 30) };
  const places = Array.from({ length: n }, (_, rank) => {
    const angle = (2 * Math.PI * rank) / n - Math.PI / 2;
    return { x: centre.x + radius * Math.cos(angle), y: centre.y + radius * Math.sin(angle) };
  });
  return { n, cells, size, places, width, height, bars, view };
}

function grid(parent, plan, columns, x, y) {
  columns.forEach((ranks, column) => {
    for (let row = 0; row < plan.n; row++) {
      const kind = ranks.includes(row) ? (ranks.length === plan.n ? " rp-done" : " rp-part") : "";
      make(parent, "rect", {
        class: "rp-cell" + kind, x: x + column * plan.size, y: y + row * plan.size,
        width: plan.size, height: plan.size,
      });
    }
  });
}

function drawRank(parent, plan, story, at, rank, fresh) {
  const { x, y } = plan.places[rank];
  const left = x - plan.width / 2;
  const top = y - plan.height / 2;
  const group = make(parent, "g", { "data-rank": rank });
  make(group, "text", { x, y: top - 8, "text-anchor": "middle" }, `rank ${rank}`);
  if (!plan.cells) {
    make(group, "rect", { class: "rp-cell", x: left, y: top, width: plan.width, height: plan.height });
    return;
  }
  const known = story.known[at][rank];
  grid(group, plan, known, left, top);
  if (at === 0 || !fresh) return;
  known.forEach((ranks, column) => {
    if (ranks.length === story.known[at - 1][rank][column].length) return;
    make(group, "rect", {
      class: "rp-new", x: left + column * plan.size, y: top, width: plan.size, height: plan.height,
    });
  });
}

// The way from one grid's edge to the other's, a little to the right of the straight line, so that
// messages that cross do not cover each other.
function way(plan, hop) {
  const a = plan.places[hop.src];
  const b = plan.places[hop.dst];
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const u = { x: (b.x - a.x) / length, y: (b.y - a.y) / length };
  const gap = Math.hypot(plan.width, plan.height) / 2 + 14;
  const side = 10;
  const point = (from, along) => ({
    x: from.x + u.x * along - u.y * side, y: from.y + u.y * along + u.x * side,
  });
  return { from: point(a, gap), to: point(b, -gap) };
}

function drawHop(parent, plan, hop, marker, fraction) {
  const { from, to } = way(plan, hop);
  const bad = hop.ranks && !hop.ranks.length ? " rp-bad" : "";
  make(parent, "line", {
    class: "rp-hop" + bad, x1: from.x, y1: from.y, x2: to.x, y2: to.y, "marker-end": `url(#${marker})`,
  });
  if (fraction === null) return;
  const x = from.x + (to.x - from.x) * fraction;
  const y = from.y + (to.y - from.y) * fraction;
  const width = hop.cells.length ? hop.cells.length * plan.size : 24;
  const height = hop.cells.length ? plan.height : 18;
  const box = { x: x - width / 2, y: y - height / 2, width, height };
  make(parent, "rect", { class: "rp-message" + bad, ...box });
  if (hop.cells.length) {
    grid(parent, plan, hop.cells.map(() => hop.ranks), box.x, box.y);
    make(parent, "rect", { class: "rp-new", ...box });
  } else if (bad) {
    make(parent, "text", { x, y: y + 5, "text-anchor": "middle" }, "?");
  }
}

function drawBars(parent, plan, story, at) {
  const ideal = (2 * (plan.n - 1) * story.n_bytes) / plan.n;
  const full = Math.max(ideal, ...story.sent[story.sent.length - 1], 1);
  const { x, y, width, height, pitch } = plan.bars;
  make(parent, "text", { x: x - 55, y: y - 36 }, "Bytes sent");
  story.sent[at].forEach((bytes, rank) => {
    const top = y + rank * pitch;
    make(parent, "text", { x: x - 55, y: top + height - 4 }, `rank ${rank}`);
    make(parent, "rect", { class: "rp-bar", x, y: top, width: (width * bytes) / full, height });
    make(parent, "text", { class: "rp-small", x: x + width + 8, y: top + height - 4 }, String(bytes));
  });
  if (!ideal) return;
  const mark = x + (width * ideal) / full;
  const bottom = y + plan.n * pitch;
  make(parent, "line", { class: "rp-mark", x1: mark, y1: y - 8, x2: mark, y2: bottom });
  make(parent, "text", { class: "rp-small", x: mark, y: bottom + 16, "text-anchor": "end" },
    `2(n−1)/n of ${story.n_bytes} bytes = ${Math.round(ideal)}`);
}

function drawing(svg, story, marker) {
  const plan = layout(story);
  svg.setAttribute("viewBox", `0 0 ${Math.round(plan.view.width)} ${Math.round(plan.view.height)}`);
  svg.style.minWidth = `${Math.round(0.65 * plan.view.width)}px`; // below that it scrolls
  return (at, fraction) => {
    svg.replaceChildren();
    const head = make(make(svg, "defs"), "marker", {
      id: marker, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto",
    });
    make(head, "path", { class: "rp-head", d: "M0 0L8 4L0 8z" });
    for (let rank = 0; rank < plan.n; rank++) drawRank(svg, plan, story, at, rank, fraction === null);
    const hops = fraction === null ? story.rounds[at - 1] || [] : story.rounds[at];
    for (const hop of hops) drawHop(svg, plan, hop, marker, fraction);
    drawBars(svg, plan, story, at);
  };
}

function build(el, story) {
  const root = make(el, "div", {
    class: "ring-player", role: "group", "aria-label": `Ring player: ${story.title}`,
    "data-lm-suppress-shortcuts": "true",
  });
  make(root, "h3", {}, story.title);
  make(root, "p", {}, story.cuts.length > 1
    ? "A row is a rank's contribution, a column a part of the array. "
      + "Blue: seen by this rank; green: summed over all."
    : "Messages without their contents.");
  const stage = make(root, "div", { class: "rp-stage", role: "group", "aria-label": "Picture" });
  new ResizeObserver(() => { // what scrolls is reached by keyboard too
    if (stage.scrollWidth > stage.clientWidth) stage.setAttribute("tabindex", "0");
    else stage.removeAttribute("tabindex");
  }).observe(stage);
  const svg = make(stage, "svg", { role: "img", "aria-label": "" });
  const controls = make(root, "div", { class: "rp-controls" });
  const button = (label, sign) =>
    make(controls, "button", { type: "button", "aria-label": label, title: label }, sign);
  const parts = { root, svg, first: button("Back to the start", "|◀"), back: button("One round back", "◀") };
  parts.play = button("Play", "Play");
  parts.next = button("One round forward", "▶|");
  parts.slider = make(controls, "input", {
    type: "range", min: 0, max: story.rounds.length, step: 1, "aria-label": "Round",
  });
  parts.speed = make(controls, "select", { "aria-label": "Speed" });
  for (const [value, name] of [["2", "half speed"], ["1", "speed 1"], ["0.5", "speed 2"]]) {
    make(parts.speed, "option", { value }, name);
  }
  parts.speed.value = "1";
  parts.status = make(root, "p", { role: "status", "aria-live": "polite" });
  parts.list = make(root, "ul", { "aria-label": "Messages of this round" });
  return parts;
}

function render({ model, el }) {
  const story = model.get("story");
  const last = story.rounds.length;
  const parts = build(el, story);
  const draw = drawing(parts.svg, story, own("rp-head"));
  const motion = window.matchMedia("(prefers-reduced-motion: reduce)");
  // VS Code has a setting of its own.
  const still = () => motion.matches || document.body.classList.contains("vscode-reduce-motion");
  const clamp = (round) => Math.max(0, Math.min(last, round));
  let at = clamp(model.get("round"));
  let frame = 0;
  let playing = false;
  let moving = false;

  function show() {
    const rounds = `${last} round${last === 1 ? "" : "s"}`;
    const text = at ? `Round ${at} of ${last}.` : last ? `Before the first of ${rounds}.` : "No message was sent.";
    draw(at, null);
    parts.status.textContent = text;
    parts.svg.setAttribute("aria-label", `${story.title}. ${text}`);
    parts.slider.value = String(at);
    parts.slider.setAttribute("aria-valuetext", text);
    parts.list.replaceChildren();
    for (const hop of at ? story.rounds[at - 1] : []) make(parts.list, "li", {}, hop.text);
  }

  function stop() {
    window.clearTimeout(frame);
    window.cancelAnimationFrame(frame);
    playing = false;
    moving = false;
    parts.play.textContent = "Play";
    parts.play.setAttribute("aria-label", "Play");
    parts.status.setAttribute("aria-live", "polite");
  }

  function arrive(round) {
    at = clamp(round);
    show();
    if (model.get("round") !== at) {
      model.set("round", at);
      model.save_changes();
    }
  }

  // Move the messages of round `at`, then be in the next. Without motion: wait, then be there.
  function advance(then) {
    const duration = ROUND_MS * Number(parts.speed.value);
    const done = () => { moving = false; arrive(at + 1); then(); };
    moving = true;
    if (still()) {
      frame = window.setTimeout(done, duration);
      return;
    }
    const began = performance.now();
    const tick = (now) => {
      const fraction = Math.min(1, Math.max(0, (now - began) / duration));
      draw(at, fraction);
      if (fraction < 1) frame = window.requestAnimationFrame(tick);
      else done();
    };
    frame = window.requestAnimationFrame(tick);
  }

  function run() {
    if (at === last) return stop();
    advance(() => { if (playing) run(); });
  }

  function toggle() {
    if (playing) { stop(); show(); return; }
    if (at === last) arrive(0);
    playing = true;
    parts.play.textContent = "Pause";
    parts.play.setAttribute("aria-label", "Pause");
    parts.status.setAttribute("aria-live", "off");
    run();
  }

  function go(round) { stop(); arrive(round); }

  function step() {
    const unfinished = moving;
    stop();
    if (unfinished) arrive(at + 1);
    if (at === last) show();
    else if (still()) arrive(at + 1);
    else advance(() => {});
  }

  const keys = {
    " ": toggle, ArrowRight: step, ArrowLeft: () => go(at - 1), Home: () => go(0), End: () => go(last),
  };
  parts.root.addEventListener("keydown", (event) => {
    const name = event.target.tagName;
    const native = name === "SELECT" || (name === "BUTTON" && event.key === " ")
      || (name === "INPUT" && (event.key === "Home" || event.key === "End"));
    if (native || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  parts.first.addEventListener("click", () => go(0));
  parts.back.addEventListener("click", () => go(at - 1));
  parts.play.addEventListener("click", toggle);
  parts.next.addEventListener("click", step);
  parts.slider.addEventListener("input", () => go(Number(parts.slider.value)));
  const follow = () => { if (model.get("round") !== at) { stop(); at = clamp(model.get("round")); show(); } };
  model.on("change:round", follow);
  show();
  return () => { stop(); model.off("change:round", follow); };
}

export default { render };
