// Hall mode: a widget fills the screen, and its words can be read from the back row. The same file
// lies beside every player (a test holds the copies together) and stands before its module.

const SVG = "http://www.w3.org/2000/svg";
const HALL_PX = 20; // no word of a hall is smaller

function make(parent, name, attributes = {}, text = "") {
  const svg = name === "svg" || parent.namespaceURI === SVG;
  const node = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  parent.appendChild(node);
  return node;
}

const inHall = (root) => root.classList.contains("in-hall");

// Gives a widget the button, the key F and Escape; `changed` is called after each change.
function hall(root, bar, changed) {
  root.setAttribute("tabindex", "-1"); // what is clicked beside its controls keeps the keys
  const button = make(bar, "button", {
    type: "button", class: "to-hall", "aria-pressed": "false", title: "Full screen (F)",
  }, "Full screen");
  const set = (on) => {
    root.classList.toggle("in-hall", on);
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Leave" : "Full screen";
    changed();
  };
  const toggle = () => {
    set(!inHall(root));
    if (inHall(root)) root.requestFullscreen?.().catch(() => {}); // refused: the page is filled
    else if (document.fullscreenElement === root) document.exitFullscreen();
  };
  button.addEventListener("click", toggle);
  root.addEventListener("fullscreenchange", () => { if (!document.fullscreenElement && inHall(root)) set(false); });
  root.addEventListener("keydown", (event) => {
    const wanted = event.key === "f" || event.key === "F" || (event.key === "Escape" && inHall(root));
    if (!wanted || event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    event.preventDefault();
    event.stopPropagation();
    toggle();
  });
}

// A page of its own: keys act at once, and `#hall` in its address begins in hall mode.
function alone(root) {
  if (window.location.hash === "#hall") root.querySelector(".to-hall").click();
  if (window.top === window) root.focus({ preventScroll: true });
}

// A picture as large as its place in the hall allows, and the size of its words.
function fit(root, svg, stage) {
  svg.style.width = svg.style.height = "";
  if (!inHall(root)) return;
  const { width, height } = svg.viewBox.baseVal;
  const scale = Math.min(stage.clientWidth / width, stage.clientHeight / height);
  svg.style.width = `${width * scale}px`;
  svg.style.height = `${height * scale}px`;
  svg.style.setProperty("--hall-text", `${(HALL_PX + 0.1) / scale}px`);
}

// What is wider than its place scrolls: then the keyboard reaches it, and a shadow shows that it does.
function scrolls(stage) {
  const look = () => {
    const wide = stage.scrollWidth > stage.clientWidth + 1;
    stage.classList.toggle("scrolls", wide);
    if (wide) stage.setAttribute("tabindex", "0");
    else stage.removeAttribute("tabindex");
  };
  const observer = new ResizeObserver(look);
  observer.observe(stage);
  return { look, stop: () => observer.disconnect() };
}

// The legend, drawn: entries of [classes, words]; "line" or "dot" in the classes says the shape.
function drawLegend(list, entries) {
  list.replaceChildren();
  for (const [classes, words] of entries) {
    const item = make(list, "li");
    const svg = make(item, "svg", { viewBox: "0 0 26 14", width: 26, height: 14, "aria-hidden": "true" });
    if (/\b(wire|rule|line)\b/.test(classes)) make(svg, "line", { class: classes, x1: 1, y1: 7, x2: 25, y2: 7 });
    else if (/\bdot\b/.test(classes)) make(svg, "circle", { class: classes, cx: 13, cy: 7, r: 5.5 });
    else make(svg, "rect", { class: classes, x: 2, y: 1, width: 22, height: 12, rx: 2 });
    make(item, "span", {}, words);
  }
}
