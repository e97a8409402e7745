// The player: scenes drawn beforehand, gone through step by step. Plain SVG, no imports, no requests.
//
// A scene has `marks` (SVG elements, each with the positions at which it is seen and how) and
// `steps` (what each position means in words, and what travels along which path on the way to it).
// Model: `scenes` (see scene.py), `tab` (which one) and `at` (the position, from 0).

const STEP_MS = 1100;
const TRAVEL = 0.6; // of a step's time that things are on their way
const SHRINK = 0.95; // smaller than this nobody can read the words
const A_VALUE = 18; // pixels that one drags from a value to the next
const A_LINE = 100; // letters of a hall's line
const WIDEST = 2.2; // a hall stretches a picture so many times as much across as up
// Each widget of a notebook loads a module of its own: none of them can count the others.
const own = (name) => `${name}-${Math.random().toString(36).slice(2, 10)}`;

// The classes of a mark at a position; null where it is not seen.
function classesAt(mark, at) {
  for (const [from, to, classes] of mark.when) {
    if (from <= at && at < to) return { classes, fresh: from === at && from > 0 };
  }
  return null;
}

// Where a hall has a mark: the picture is stretched, its words are not.
function placed(attrs, { x, y }) {
  const found = {};
  for (const [key, value] of Object.entries(attrs)) {
    const by = /^(x|x1|x2|cx|width)$/.test(key) ? x : /^(y|y1|y2|cy|height)$/.test(key) ? y : 0;
    found[key] = key === "d" ? stretched(value, x, y) : by ? value * by : value;
  }
  return found;
}

// A path whose numbers go x, y, x, y: all but those of H and V.
function stretched(d, x, y) {
  let command = "M";
  let k = 0;
  return d.replace(/([A-Za-z])|(-?[\d.]+)/g, (text, letter) => {
    if (letter) { command = letter.toUpperCase(); k = 0; return letter; }
    const along = command === "H" || (command !== "V" && k++ % 2 === 0);
    return (Number(text) * (along ? x : y)).toFixed(1);
  });
}

function drawMark(svg, mark, at, tip, zoom) {
  const seen = classesAt(mark, at);
  if (!seen) return null;
  const lower = mark.shape === "text" && zoom.hall ? 3 : 0; // larger words keep their middle
  const attributes = { ...placed(mark.attrs, zoom), class: seen.classes + (seen.fresh ? " mt-fresh" : "") };
  if (mark.arrow) attributes["marker-end"] = `url(#${tip})`;
  if (lower) attributes.y += lower;
  const node = make(svg, mark.shape, attributes, mark.text);
  if (mark.tip) make(node, "title", {}, mark.tip);
  return { node, mark, seen, since: mark.when.find(([from, to]) => from <= at && at < to)[0] };
}

function draw(svg, scene, at, tip, zoom) {
  svg.replaceChildren();
  const head = make(make(svg, "defs"), "marker", {
    id: tip, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9,
    markerUnits: "userSpaceOnUse", orient: "auto",
  });
  make(head, "path", { class: "head", d: "M0 0.5L8 4L0 7.5z" });
  const drawn = scene.marks.map((mark) => drawMark(svg, mark, at, tip, zoom)).filter(Boolean);
  if (!zoom.hall) return;
  const [labels, rects] = ["text", "rect"].map((shape) => drawn.filter(({ mark }) => mark.shape === shape));
  const free = seat(labels, rects.filter(({ seen }) => /\bbox\b/.test(seen.classes)));
  const boxes = rects.map(({ node }) => node.getBBox());
  for (const label of free) clear(label, boxes);
  thin(labels.filter(({ node }) => node.isConnected), boxes, zoom);
}

// Dots for what travels in the step after `at`; call the result with a fraction of the way.
function travellers(svg, step, zoom) {
  const found = step.travels.map((travel) => {
    const way = make(svg, "path", { d: stretched(travel.d, zoom.x, zoom.y), fill: "none", stroke: "none" });
    const length = way.getTotalLength();
    const dot = make(svg, "circle", { class: `dot ${travel.kind}`, r: 6 });
    return (fraction) => {
      const point = way.getPointAtLength(length * (travel.back ? 1 - fraction : fraction));
      dot.setAttribute("cx", point.x);
      dot.setAttribute("cy", point.y);
    };
  });
  return (fraction) => { for (const place of found) place(fraction); };
}

function build(el, scenes) {
  const id = own("mt-player");
  const root = make(el, "div", {
    class: "mt-player", role: "group", "data-lm-suppress-shortcuts": "true",
  });
  const parts = { root, id, title: make(root, "h3"), hint: make(root, "p") };
  parts.legend = make(root, "ul", { class: "legend", "aria-label": "Legend" });
  parts.tabs = scenes.length > 1 ? make(root, "div", { class: "mt-tabs", role: "tablist" }) : null;
  parts.buttons = !parts.tabs ? [] : scenes.map((scene, i) => make(parts.tabs, "button", {
    type: "button", role: "tab", id: `${id}-tab-${i}`, "aria-controls": `${id}-stage`,
  }, scene.tab));
  const controls = make(root, "div", { class: "mt-controls" });
  const button = (label, sign) =>
    make(controls, "button", { type: "button", "aria-label": label, title: label }, sign);
  parts.first = button("Back to the start", "|◀");
  parts.back = button("One step back", "◀");
  parts.play = button("Play", "Play");
  parts.next = button("One step forward", "▶|");
  parts.slider = make(controls, "input", { type: "range", min: 0, step: 1, "aria-label": "Step" });
  parts.speed = make(controls, "select", { "aria-label": "Speed" });
  for (const [value, name] of [["2", "half speed"], ["1", "speed 1"], ["0.5", "speed 2"]]) {
    make(parts.speed, "option", { value }, name);
  }
  parts.speed.value = "1";
  parts.knobBox = make(controls, "label", { class: "mt-knob" });
  parts.knobName = make(parts.knobBox, "span");
  parts.knob = make(parts.knobBox, "input", { type: "range", min: 0, step: 1 });
  parts.pane = make(controls, "button", { type: "button", class: "mt-pane" });
  parts.controls = controls;
  parts.status = make(root, "p", { class: "mt-status", role: "status", "aria-live": "polite" });
  parts.stage = make(root, "div", { class: "mt-stage hall-stage", id: `${id}-stage` });
  parts.stage.setAttribute("role", parts.tabs ? "tabpanel" : "group");
  if (!parts.tabs) parts.stage.setAttribute("aria-label", "Picture");
  parts.svg = make(parts.stage, "svg", { role: "img" });
  parts.list = make(root, "ul", { "aria-label": "What this step does" });
  return parts;
}

function render({ model, el }) {
  const scenes = model.get("scenes");
  const parts = build(el, scenes);
  const tip = `${parts.id}-tip`;
  const motion = window.matchMedia("(prefers-reduced-motion: reduce)");
  // VS Code has a setting of its own.
  const still = () => motion.matches || document.body.classList.contains("vscode-reduce-motion");
  const within = (value, last) => Math.max(0, Math.min(last, value));
  let tab = within(model.get("tab"), scenes.length - 1);
  let scene = scenes[tab];
  let last = scene.steps.length - 1;
  let at = within(model.get("at"), last);
  let pick = scene.drag ? scene.drag.at : 0; // which value is dragged to
  let pane = 0; // which part of a tall picture a hall sees
  let zoom = { x: 1, y: 1 };
  let timer = 0;
  let playing = false;
  let moving = false;
  let telling = false;

  const reach = scrolls(parts.stage);

  // How large the picture is: in a hall it fills its place, elsewhere it is as it was laid out.
  function size() {
    const [, top, bottom] = (inHall(parts.root) && scene.panes[pane]) || ["", 0, scene.height];
    const room = { width: parts.stage.clientWidth, height: parts.stage.clientHeight };
    zoom = { x: 1, y: 1, top: 0, width: scene.width, height: scene.height, hall: inHall(parts.root) };
    if (zoom.hall) {
      zoom.y = room.height / (bottom - top);
      zoom.x = Math.min(room.width / scene.width, WIDEST * Math.max(zoom.y, 1));
      Object.assign(zoom, { top: top * zoom.y, width: scene.width * zoom.x, height: room.height });
    }
    const [width, height] = [Math.round(zoom.width), Math.round(zoom.height)];
    parts.svg.setAttribute("viewBox", `0 ${Math.round(zoom.top)} ${width} ${height}`);
    parts.svg.setAttribute("width", width);
    parts.svg.setAttribute("height", height);
    parts.svg.style.minWidth = `${Math.round(scene.width * SHRINK)}px`; // wider than the page: it scrolls
    parts.svg.style.overflow = scene.panes.length ? "hidden" : "";
    parts.pane.hidden = !zoom.hall || !scene.panes.length;
    if (scene.panes.length) parts.pane.textContent = scene.panes[(pane + 1) % scene.panes.length][0];
    reach.look();
  }

  function dragTo(k) {
    const { scenes: variants, values, name } = scenes[tab].drag;
    pick = within(k, values.length - 1);
    scene = variants[pick];
    const share = last ? at / last : 0; // variants may differ in their steps
    last = scene.steps.length - 1;
    at = Math.round(share * last);
    parts.slider.setAttribute("max", last);
    parts.knob.value = String(pick);
    parts.knob.setAttribute("aria-valuetext", `${name} = ${values[pick]}`);
    parts.knobName.textContent = `${name} = ${values[pick]}`;
  }

  // The same step with another value of what can be dragged.
  function vary(k) {
    stop();
    dragTo(k);
    size();
    show();
  }

  function choose(index) {
    const before = scenes[tab].drag;
    tab = index;
    scene = scenes[tab];
    parts.knobBox.hidden = !scene.drag;
    last = scene.steps.length - 1;
    parts.root.setAttribute("aria-label", scene.title);
    parts.title.textContent = scene.title;
    parts.hint.textContent = scene.hint;
    parts.slider.setAttribute("max", last);
    drawLegend(parts.legend, scene.legend);
    const most = (of) => Math.max(...scene.steps.map(of));
    parts.root.style.setProperty("--rows", most((step) => step.rows.length));
    parts.root.style.setProperty("--lines", Math.ceil(most((step) => step.text.length) / A_LINE));
    pane = 0;
    if (scene.drag) {
      parts.knob.setAttribute("max", scene.drag.values.length - 1);
      parts.knob.setAttribute("aria-label", `Value of ${scene.drag.name}`);
      dragTo(before && before.name === scene.drag.name ? pick : scene.drag.at);
    }
    size();
    parts.buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", String(i === tab));
      button.setAttribute("tabindex", i === tab ? "0" : "-1");
    });
    if (parts.tabs) parts.stage.setAttribute("aria-labelledby", `${parts.id}-tab-${tab}`);
  }

  function show() {
    const step = scene.steps[at];
    draw(parts.svg, scene, at, tip, zoom);
    parts.status.textContent = step.text;
    parts.svg.setAttribute("aria-label", `${scene.title}. Step ${at} of ${last}. ${step.text}`);
    parts.slider.value = String(at);
    parts.slider.setAttribute("aria-valuetext", `Step ${at} of ${last}`);
    parts.list.replaceChildren();
    for (const row of step.rows) make(parts.list, "li", {}, row);
  }

  function stop() {
    window.clearTimeout(timer);
    window.cancelAnimationFrame(timer);
    playing = false;
    moving = false;
    parts.play.textContent = "Play";
    parts.play.setAttribute("aria-label", "Play");
    parts.status.setAttribute("aria-live", "polite");
  }

  function arrive(position) {
    at = within(position, last);
    show();
    if (model.get("at") === at && model.get("tab") === tab) return;
    telling = true; // or the first of the two changes would be answered with the old other one
    model.set("at", at);
    model.set("tab", tab);
    telling = false;
    model.save_changes();
  }

  // Let things travel, then be at the next position. Without motion: wait, then be there.
  function advance(then) {
    const duration = STEP_MS * Number(parts.speed.value);
    const step = scene.steps[at + 1];
    const done = () => { moving = false; arrive(at + 1); then(); };
    moving = true;
    if (still() || !step.travels.length) {
      timer = window.setTimeout(done, then.single ? 0 : duration);
      return;
    }
    const place = travellers(parts.svg, step, zoom);
    const began = performance.now();
    const tick = (now) => {
      const fraction = Math.min(1, Math.max(0, (now - began) / (duration * TRAVEL)));
      place(fraction);
      if (fraction < 1) timer = window.requestAnimationFrame(tick);
      else if (then.single) done();
      else {
        arrive(at + 1);
        timer = window.setTimeout(() => { moving = false; then(); }, duration * (1 - TRAVEL));
      }
    };
    timer = window.requestAnimationFrame(tick);
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

  function go(position) { stop(); arrive(position); }

  function step() {
    const unfinished = moving && !playing;
    stop();
    if (unfinished) arrive(at + 1);
    if (at === last) { show(); return; }
    if (still()) { arrive(at + 1); return; }
    const then = () => {};
    then.single = true;
    advance(then);
  }

  function turn(index) {
    stop();
    choose(within(index, scenes.length - 1));
    arrive(0);
    if (parts.buttons[tab]) parts.buttons[tab].focus();
  }

  const keys = {
    " ": toggle, ArrowRight: step, ArrowLeft: () => go(at - 1), Home: () => go(0), End: () => go(last),
  };
  parts.root.addEventListener("keydown", (event) => {
    const name = event.target.tagName;
    if (event.target.getAttribute("role") === "tab") {
      const to = { ArrowRight: tab + 1, ArrowLeft: tab - 1, Home: 0, End: scenes.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      turn(to);
      return;
    }
    const native = name === "SELECT" || (name === "BUTTON" && event.key === " ")
      || (name === "INPUT" && event.key !== " ");
    if (native || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  parts.buttons.forEach((button, i) => button.addEventListener("click", () => turn(i)));
  parts.first.addEventListener("click", () => go(0));
  parts.back.addEventListener("click", () => go(at - 1));
  parts.play.addEventListener("click", toggle);
  parts.next.addEventListener("click", step);
  parts.slider.addEventListener("input", () => go(Number(parts.slider.value)));
  const follow = () => {
    if (telling || (model.get("at") === at && model.get("tab") === tab)) return;
    stop();
    choose(within(model.get("tab"), scenes.length - 1));
    at = within(model.get("at"), last);
    show();
  };
  model.on("change:at", follow);
  model.on("change:tab", follow);
  parts.knob.addEventListener("input", () => vary(Number(parts.knob.value)));
  let held = null;
  parts.svg.addEventListener("pointerdown", (event) => {
    if (!event.target.closest("[data-handle]")) return;
    held = { x: event.clientX, pick };
    parts.svg.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  parts.svg.addEventListener("pointermove", (event) => {
    const to = held && within(held.pick + Math.round((event.clientX - held.x) / A_VALUE), scenes[tab].drag.values.length - 1);
    if (held && to !== pick) vary(to);
  });
  for (const end of ["pointerup", "pointercancel"]) parts.svg.addEventListener(end, () => { held = null; });
  const again = () => { size(); if (!moving) show(); };
  hall(parts.root, parts.controls, again);
  parts.pane.addEventListener("click", () => { pane = (pane + 1) % scene.panes.length; again(); });
  const sized = new ResizeObserver(() => { if (inHall(parts.root)) again(); });
  sized.observe(parts.stage);
  choose(tab);
  show();
  return () => { stop(); sized.disconnect(); reach.stop(); model.off("change:at", follow); model.off("change:tab", follow); };
}

export default { render };
