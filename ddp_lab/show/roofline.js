// A roofline: a task is dragged along it, or moved by a slider; a button times this very device.
// `attainable` is ddp_lab.show.roofline.attainable: a test holds the two together.

const PLANE = { left: 92, right: 24, top: 18, below: 46, height: 330, low: -6, high: 10, decades: 13 };
const attainable = (intensity, flops, bandwidth) => Math.min(flops, intensity * bandwidth);

// Operations and bytes a second of the device that shows this page: the best of some turns each.
function measured() {
  const n = 1 << 20;
  const [a, b] = [new Float32Array(n).fill(1.5), new Float32Array(n)];
  const best = (amount, work) => { // a clock of a browser goes by steps of a tenth of a millisecond
    let most = 0;
    for (let turn = 0; turn < 12; turn += 1) {
      const began = performance.now();
      let times = 0;
      while (performance.now() - began < 4) { work(); times += 1; }
      most = Math.max(most, (times * amount * 1000) / (performance.now() - began));
    }
    return most;
  };
  const copied = best(8 * n, () => b.set(a));
  let held = 0;
  const operations = best(8 * n, () => {
    let [p, q, r, s] = [1, 1.1, 1.2, 1.3];
    for (let k = 0; k < n; k += 1) { p = p * 0.999 + 0.01; q = q * 0.999 + 0.01; r = r * 0.999 + 0.01; s = s * 0.999 + 0.01; }
    held += p + q + r + s;
  });
  return held ? [operations, copied] : [1, 1];
}

function perSecond(x) {
  const units = ["", "k", "M", "G", "T"];
  let k = 0;
  while (x >= 1000 && k < units.length - 1) { x /= 1000; k += 1; }
  return `${short(x)} ${units[k]}`;
}

function ground(svg, flops) {
  const { width, height } = room(svg, PLANE.height);
  const wide = width - PLANE.left - PLANE.right;
  const tall = height - PLANE.top - PLANE.below;
  const x = (log2) => PLANE.left + (wide * (log2 - PLANE.low)) / (PLANE.high - PLANE.low);
  const y = (rate) => PLANE.top + tall * Math.min(1, (Math.log2(2 * flops) - Math.log2(rate)) / PLANE.decades);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  make(svg, "path", { class: "dl-axis", d: `M${PLANE.left} ${PLANE.top}V${PLANE.top + tall}H${width - PLANE.right}` });
  const every = wide < 420 ? 4 : 2;
  for (let log2 = PLANE.low; log2 <= PLANE.high; log2 += every) {
    const words = log2 < 0 ? `1/${2 ** -log2}` : String(2 ** log2);
    make(svg, "text", { class: "dl-small", x: x(log2), y: PLANE.top + tall + 18, "text-anchor": "middle" }, words);
  }
  make(svg, "text", { class: "dl-small", x: width - PLANE.right, y: height - 6, "text-anchor": "end" }, "operations a byte");
  make(svg, "text", { class: "dl-small", x: PLANE.left + 8, y: 14 }, "operations a second, at most");
  for (const factor of [1, 1 / 16, 1 / 256]) {
    make(svg, "path", { class: "dl-grid", d: `M${PLANE.left} ${y(flops * factor)}H${width - PLANE.right}` });
    make(svg, "text", { class: "dl-small", x: PLANE.left - 6, y: y(flops * factor) + 4, "text-anchor": "end" }, `${perSecond(flops * factor)}/s`);
  }
  return { x, y, wide, foot: PLANE.top + tall };
}

function draw(svg, [flops, bandwidth], log2, tasks) {
  const { x, y, wide, foot } = ground(svg, flops);
  const at = (l) => [x(l), y(attainable(2 ** l, flops, bandwidth))];
  const corner = Math.min(PLANE.high, Math.max(PLANE.low, Math.log2(flops / bandwidth)));
  make(svg, "path", { class: "dl-a", d: path([at(PLANE.low), at(corner), at(PLANE.high)]) });
  Object.entries(tasks).forEach(([name, intensity]) => {
    const [a, b] = at(Math.log2(intensity));
    make(svg, "path", { class: "dl-grid", d: `M${a} ${b}V${foot}` });
    make(make(svg, "circle", { class: "dl-c", cx: a, cy: b, r: 5 }), "title", {}, `${name}: ${short(intensity)} operations a byte`);
  });
  const [a, b] = at(log2);
  make(svg, "path", { class: "dl-mark", d: `M${a} ${b}V${foot}` });
  make(svg, "circle", { class: "dl-b", cx: a, cy: b, r: 9 });
  if (wide > 420) {
    const ends = []; // of the names so far, by row: on a flat roof they would lie over each other
    for (const [name, intensity] of Object.entries(tasks)) {
      const [end, top] = at(Math.log2(intensity));
      const last = end > PLANE.left + 0.8 * wide; // its name stands left of it, lower than the others'
      const halo = "paint-order: stroke; stroke: var(--dl-paper); stroke-width: 4px";
      const text = make(svg, "text", { class: "dl-small", style: halo, "text-anchor": last ? "end" : "start" }, name);
      const left = last ? end - 6 - text.getComputedTextLength() : end + 12;
      let row = last ? 1 : 0;
      while (ends.some(([x, y]) => x > left && Math.abs(y - top - 22 * row) < 16)) row += 1;
      ends.push([left + text.getComputedTextLength(), top + 22 * row]);
      text.setAttribute("x", last ? end - 6 : end + 12);
      text.setAttribute("y", top + 22 + 22 * row);
    }
  }
  return { x, wide };
}

function render({ model, el }) {
  const get = (name) => model.get(name);
  const [title, tasks] = [get("title"), get("tasks")];
  const devices = { ...get("devices") };
  const note = "Left of the corner a task waits for bytes; right of it, it computes all the time. Drag it, or move the slider.";
  const parts = frame(el, "dl-roofline", title, note, [["line dl-a", "roof"], ["dot dl-b", "the task"], ["dot dl-c", "four tasks of float32"]]);
  Object.assign(parts.svg.style, { cursor: "ew-resize", touchAction: "pan-y" });
  let plane = null;
  const show = () => {
    const [flops, bandwidth] = devices[get("device")];
    const log2 = get("log_intensity");
    plane = draw(parts.svg, [flops, bandwidth], log2, tasks);
    const share = attainable(2 ** log2, flops, bandwidth) / flops;
    const [name] = Object.entries(tasks).reduce((best, one) => (Math.abs(Math.log2(one[1]) - log2) < Math.abs(Math.log2(best[1]) - log2) ? one : best));
    const text = `${short(2 ** log2)} operations a byte: at most ${short(100 * share)} % of the peak of ${perSecond(flops)}/s. ${share === 1 ? "Computing" : "Memory"} bounds it; the corner is at ${short(flops / bandwidth)}. Nearest: ${name}.`;
    parts.status.textContent = text;
    parts.svg.setAttribute("aria-label", `${title} ${get("device")}. ${text}`);
  };
  const named = () => Object.keys(devices).map((name) => [name, name]);
  const select = choice(parts.controls, "Device", named(), get("device"), (name) => { tell(model, "device", name); show(); });
  const words = (l) => `${short(2 ** l)} a byte`;
  const one = slider(parts.controls, "Operations a byte", { min: PLANE.low, max: PLANE.high, step: 0.5, value: get("log_intensity"), words }, (l) => {
    tell(model, "log_intensity", l);
    show();
  });
  const button = make(parts.controls, "button", { type: "button" }, "Measure this device");
  button.addEventListener("click", () => {
    devices["this browser"] = measured();
    if (![...select.options].some((o) => o.value === "this browser")) make(select, "option", { value: "this browser" }, "this browser");
    select.value = "this browser";
    tell(model, "device", "this browser");
    show();
  });
  const drag = (event) => {
    if (!event.buttons || !plane) return;
    const box = parts.svg.getBoundingClientRect();
    const units = ((event.clientX - box.left) * parts.svg.viewBox.baseVal.width) / box.width;
    const log2 = PLANE.low + ((units - PLANE.left) * (PLANE.high - PLANE.low)) / plane.wide;
    const value = Math.round(2 * Math.min(PLANE.high, Math.max(PLANE.low, log2))) / 2;
    one.set(value);
    tell(model, "log_intensity", value);
    show();
  };
  for (const kind of ["pointerdown", "pointermove"]) parts.svg.addEventListener(kind, drag);
  const lets = [
    follow(model, "log_intensity", (l) => { one.set(l); show(); }),
    follow(model, "device", (name) => { if (devices[name]) { select.value = name; show(); } }),
    live(parts, show),
  ];
  return () => lets.forEach((let_go) => let_go());
}

export default { render };
export { attainable };
