// The ring player: a recorded run, played round by round. Plain SVG, no imports, no requests.
//
// Columns of a rank's grid are parts of the array, rows are ranks: a filled square says that this
// rank has seen that rank's contribution to that part. Model: `story` (see story.py) and `round`.

const LISTED = 8; // messages of a round for which a hall has words
const A_NUMBER = 50; // a shorter arrow has no room for its bytes
const LEGEND = [["rp-cell rp-part", "seen by this rank"], ["rp-cell rp-done", "summed over all"], ["rp-cell rp-new", "arrived in this round"]];
const ROUND_MS = 1100;
// Each widget of a notebook loads a module of its own: none of them can count the others.
const own = (name) => `${name}-${Math.random().toString(36).slice(2, 10)}`;

function grid(parent, plan, columns, x, y) {
  columns.forEach((ranks, column) => {
    for (let row = 0; row < plan.n; row++) {
      const kind = ranks.includes(row) ? (ranks.length === plan.n ? " rp-done" : " rp-part") : "";
      make(parent, "rect", {
        class: "rp-cell" + kind, x: x + column * plan.size, y: y + row * plan.size,
        width: plan.size, height: plan.size,
      });
      if (!kind || plan.size < HALL.number) continue;
      const place = { x: x + (column + 0.5) * plan.size, y: y + (row + 0.5) * plan.size + 7, "text-anchor": "middle" };
      make(parent, "text", { class: "rp-inside", ...place }, String(row));
    }
  });
}

function drawRank(parent, plan, story, at, rank, fresh) {
  const { x, y } = plan.places[rank];
  const left = x - plan.width / 2;
  const top = y - plan.height / 2;
  const group = make(parent, "g", { "data-rank": rank });
  if (!plan.crowd) make(group, "text", { x, y: top - 8, "text-anchor": "middle" }, `rank ${rank}`);
  if (!plan.cells) {
    make(group, "rect", { class: "rp-cell", x: left, y: top, width: plan.width, height: plan.height });
    if (plan.crowd) make(group, "text", { class: "rp-tiny", x, y: y + 4, "text-anchor": "middle" }, String(rank));
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
  const gap = plan.crowd ? 8 : Math.hypot(plan.width, plan.height) / 2 + 14;
  const side = plan.crowd ? 14 : 10;
  const point = (from, along) => ({
    x: from.x + u.x * along - u.y * side, y: from.y + u.y * along + u.x * side,
  });
  return { from: point(a, gap), to: point(b, -gap) };
}

// Who will ever send to whom: what there is to see before the first message.
function drawLinks(parent, plan, story) {
  const pairs = new Map(story.rounds.flat().map((hop) => [`${hop.src} ${hop.dst}`, hop]));
  if (pairs.size > 2 * plan.n) return;
  for (const hop of pairs.values()) {
    const { from, to } = way(plan, hop);
    make(parent, "line", { class: "rp-link", x1: from.x, y1: from.y, x2: to.x, y2: to.y });
  }
}

function drawArrow(parent, plan, hop, marker) {
  const { from, to } = way(plan, hop);
  make(parent, "line", {
    class: "rp-hop" + bad(hop), x1: from.x, y1: from.y, x2: to.x, y2: to.y, "marker-end": `url(#${marker})`,
  });
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  if (plan.crowd || length < A_NUMBER) return;
  // Its bytes stand nearer to who sends them, on the side on which no arrow comes back.
  const aside = { x: (from.y - to.y) / length, y: (to.x - from.x) / length };
  const x = from.x + 0.35 * (to.x - from.x) + 8 * aside.x;
  const y = from.y + 0.35 * (to.y - from.y) + 8 * aside.y + plan.bars.line / 3 * (1 + aside.y);
  const anchor = Math.abs(aside.x) < 0.2 ? "middle" : aside.x > 0 ? "start" : "end";
  make(parent, "text", { class: "rp-small", x, y, "text-anchor": anchor }, `${hop.bytes} B`);
}

const bad = (hop) => (hop.ranks && !hop.ranks.length ? " rp-bad" : "");

// A message at the start of its way, in a group of its own; `fly` then only moves the group.
function drawMessage(parent, plan, hop) {
  const { from, to } = way(plan, hop);
  const group = make(parent, "g");
  const width = hop.cells.length ? hop.cells.length * plan.size : plan.crowd ? 8 : 24;
  const height = hop.cells.length ? plan.height : plan.crowd ? 8 : 18;
  const box = { x: from.x - width / 2, y: from.y - height / 2, width, height };
  make(group, "rect", { class: "rp-message" + bad(hop), ...box });
  if (hop.cells.length) {
    grid(group, plan, hop.cells.map(() => hop.ranks), box.x, box.y);
    make(group, "rect", { class: "rp-new", ...box });
  } else if (bad(hop)) {
    make(group, "text", { x: from.x, y: from.y + 5, "text-anchor": "middle" }, "?");
  }
  return { group, x: to.x - from.x, y: to.y - from.y };
}

function fly(message, fraction) {
  message.group.setAttribute("transform", `translate(${message.x * fraction} ${message.y * fraction})`);
}

function drawBars(parent, plan, story, at) {
  const ideal = (2 * (plan.n - 1) * story.n_bytes) / plan.n;
  const full = Math.max(ideal, ...story.sent[story.sent.length - 1], 1);
  const { x, y, width, height, pitch, lead, line } = plan.bars;
  make(parent, "text", { x: x - lead, y: y - 36 }, "Bytes sent");
  // Where bars stand close, some have a label, and as many lines of text as there is room for.
  const every = Math.ceil(line / pitch);
  story.sent[at].forEach((bytes, rank) => {
    const top = y + rank * pitch;
    const base = top + height / 2 + line / 3;
    make(parent, "rect", { class: "rp-bar", x, y: top, width: (width * bytes) / full, height });
    if (rank % every) return;
    make(parent, "text", { x: x - 6, y: base, "text-anchor": "end" }, `rank ${rank}`);
    make(parent, "text", { class: "rp-small", x: x + width + 8, y: base }, String(bytes));
  });
  if (!ideal) return;
  const mark = x + (width * ideal) / full;
  const bottom = y + plan.n * pitch;
  make(parent, "line", { class: "rp-mark", x1: mark, y1: y - 8, x2: mark, y2: bottom });
  make(parent, "text", { class: "rp-small", x: x - lead, y: bottom + 10 + 0.8 * line },
    `2(n−1)/n of ${story.n_bytes} bytes = ${Math.round(ideal)}`);
}

function drawing(svg, story, marker) {
  let plan = null;
  let flying = null; // the messages on their way, and the round that they are of

  function stand(at, hops, fresh) {
    svg.replaceChildren();
    const head = make(make(svg, "defs"), "marker", {
      id: marker, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto",
    });
    make(head, "path", { class: "rp-head", d: "M0 0L8 4L0 8z" });
    for (let rank = 0; rank < plan.n; rank++) drawRank(svg, plan, story, at, rank, fresh);
    if (at === 0 && fresh) drawLinks(svg, plan, story);
    for (const hop of hops) drawArrow(svg, plan, hop, marker);
    drawBars(svg, plan, story, at);
  }

  // For another place: `room` is what a hall has for it.
  function lay(room) {
    plan = layout(story, room);
    flying = null;
    svg.setAttribute("viewBox", `0 0 ${Math.round(plan.view.width)} ${Math.round(plan.view.height)}`);
    svg.style.minWidth = `${Math.round(Math.min(0.9 * plan.view.width, 850))}px`; // below that it scrolls
  }

  // A round is drawn once; while its messages move, nothing but them is touched.
  function draw(at, fraction) {
    if (fraction === null) {
      flying = null;
      stand(at, story.rounds[at - 1] || [], true);
      return;
    }
    const hops = story.rounds[at];
    if (!flying || flying.at !== at) {
      stand(at, hops, false);
      flying = { at, messages: hops.map((hop) => drawMessage(svg, plan, hop)) };
    }
    for (const message of flying.messages) fly(message, fraction);
  }
  lay(null);
  return { lay, draw };
}

function build(el, story) {
  const root = make(el, "div", {
    class: "ring-player", role: "group", "aria-label": `Ring player: ${story.title}`,
    "data-lm-suppress-shortcuts": "true",
  });
  make(root, "h3", {}, story.title);
  make(root, "p", {}, story.cuts.length > 1
    ? "A row is a rank's contribution, a column a part of the array."
    : "Messages without their contents.");
  if (story.cuts.length > 1) drawLegend(make(root, "ul", { class: "legend", "aria-label": "Legend" }), LEGEND);
  const stage = make(root, "div", { class: "rp-stage hall-stage", role: "group", "aria-label": "Picture" });
  const svg = make(stage, "svg", { role: "img", "aria-label": "" });
  const controls = make(root, "div", { class: "rp-controls" });
  const button = (label, sign) =>
    make(controls, "button", { type: "button", "aria-label": label, title: label }, sign);
  const parts = { root, svg, stage, controls, first: button("Back to the start", "|◀"), back: button("One round back", "◀") };
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
  const said = make(root, "div", { class: "rp-said" });
  parts.status = make(said, "p", { role: "status", "aria-live": "polite" });
  if (story.ended_ms?.length) parts.clock = make(said, "p", { class: "rp-clock" });
  parts.list = make(root, "ul", { "aria-label": "Messages of this round" });
  return parts;
}

function render({ model, el }) {
  const story = model.get("story");
  const last = story.rounds.length;
  const parts = build(el, story);
  const { lay, draw } = drawing(parts.svg, story, own("rp-head"));
  const most = Math.max(0, ...story.rounds.map((hops) => hops.length));
  parts.root.style.setProperty("--lines", 2 * Math.ceil(Math.min(most, LISTED) / 2));
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
    if (parts.clock) {
      const ms = at ? story.ended_ms[at - 1] : 0;
      parts.clock.textContent = `On the link: ${ms} ms of ${story.ended_ms.at(-1)} ms, as recorded.`;
    }
    parts.list.replaceChildren();
    const hops = at ? story.rounds[at - 1] : [];
    parts.list.classList.toggle("rp-columns", hops.length > CROWD);
    for (const hop of hops) make(parts.list, "li", {}, hop.text);
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
  let known = "";
  const resize = () => {
    const room = inHall(parts.root) ? { width: parts.stage.clientWidth, height: parts.stage.clientHeight } : null;
    if (JSON.stringify(room) !== known) {
      known = JSON.stringify(room);
      lay(room);
      if (!moving) draw(at, null);
    }
    fit(parts.root, parts.svg, parts.stage);
  };
  hall(parts.root, parts.controls, resize);
  const reach = scrolls(parts.stage);
  const sized = new ResizeObserver(resize);
  sized.observe(parts.stage);
  show();
  return () => { stop(); reach.stop(); sized.disconnect(); model.off("change:round", follow); };
}

export default { render };
