// The player: scenes drawn beforehand, gone through step by step. Plain SVG, no imports, no requests.
//
// A scene has `marks` (SVG elements, each with the positions at which it is seen and how) and
// `steps` (what each position means in words, and what travels along which path on the way to it).
// Model: `scenes` (see scene.py), `tab` (which one) and `at` (the position, from 0).

const SVG = "http://www.w3.org/2000/svg";
const STEP_MS = 1100;
const TRAVEL = 0.6; // of a step's time that things are on their way
const SHRINK = 0.7; // smaller than this nobody can read the words
// Each widget of a notebook loads a module of its own: none of them can count the others.
const own = (name) => `${name}-${Math.random().toString(36).slice(2, 10)}`;

function make(parent, name, attributes = {}, text = "") {
  const svg = name === "svg" || parent.namespaceURI === SVG;
  const node = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  parent.appendChild(node);
  return node;
}

// The classes of a mark at a position; null where it is not seen.
function classesAt(mark, at) {
  for (const [from, to, classes] of mark.when) {
    if (from <= at && at < to) return { classes, fresh: from === at && from > 0 };
  }
  return null;
}

function drawMark(svg, mark, at, tip) {
  const seen = classesAt(mark, at);
  if (!seen) return;
  const attributes = { ...mark.attrs, class: seen.classes + (seen.fresh ? " mt-fresh" : "") };
  if (mark.arrow) attributes["marker-end"] = `url(#${tip})`;
  const node = make(svg, mark.shape, attributes, mark.text);
  if (mark.tip) make(node, "title", {}, mark.tip);
}

function draw(svg, scene, at, tip) {
  svg.replaceChildren();
  const head = make(make(svg, "defs"), "marker", {
    id: tip, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9,
    markerUnits: "userSpaceOnUse", orient: "auto",
  });
  make(head, "path", { class: "head", d: "M0 0.5L8 4L0 7.5z" });
  for (const mark of scene.marks) drawMark(svg, mark, at, tip);
}

// Dots for what travels in the step after `at`; call the result with a fraction of the way.
function travellers(svg, step) {
  const found = step.travels.map((travel) => {
    const way = make(svg, "path", { d: travel.d, fill: "none", stroke: "none" });
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
  parts.status = make(root, "p", { class: "mt-status", role: "status", "aria-live": "polite" });
  parts.stage = make(root, "div", { class: "mt-stage", id: `${id}-stage` });
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
  let timer = 0;
  let playing = false;
  let moving = false;
  let telling = false;

  function reach() { // what scrolls is reached by keyboard too
    if (parts.stage.scrollWidth > parts.stage.clientWidth) parts.stage.setAttribute("tabindex", "0");
    else parts.stage.removeAttribute("tabindex");
  }

  function choose(index) {
    tab = index;
    scene = scenes[tab];
    last = scene.steps.length - 1;
    parts.root.setAttribute("aria-label", scene.title);
    parts.title.textContent = scene.title;
    parts.hint.textContent = scene.hint;
    parts.slider.setAttribute("max", last);
    parts.svg.setAttribute("viewBox", `0 0 ${scene.width} ${scene.height}`);
    parts.svg.setAttribute("width", scene.width);
    parts.svg.setAttribute("height", scene.height);
    const least = Math.round(scene.width * SHRINK); // wider than the page: it scrolls
    parts.svg.style.minWidth = `${least}px`;
    reach();
    parts.buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", String(i === tab));
      button.setAttribute("tabindex", i === tab ? "0" : "-1");
    });
    if (parts.tabs) parts.stage.setAttribute("aria-labelledby", `${parts.id}-tab-${tab}`);
  }

  function show() {
    const step = scene.steps[at];
    draw(parts.svg, scene, at, tip);
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
    const place = travellers(parts.svg, step);
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
  const sized = new ResizeObserver(reach);
  sized.observe(parts.stage);
  choose(tab);
  show();
  return () => { stop(); sized.disconnect(); model.off("change:at", follow); model.off("change:tab", follow); };
}

export default { render };
