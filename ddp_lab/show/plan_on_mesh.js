// The best plan on a mesh, for the links that the sliders say. The plans come from Python.

const MESH = { side: 104, gap: 10, top: 34, left: 20, hosts: 2, devices: 4, bars: 520, wide: 300, tall: 290 };
const MODEL_NAMES = [["wide", "many parameters, small outputs"], ["long", "few parameters, large outputs"]];
const TERM_NAMES = { compute: "compute", tensor_parallel: "shared layers", transfers: "between stages", data_parallel: "gradients" };
const LEGEND = Object.values(TERM_NAMES).map((name, hue) => [HUES[hue], `time: ${name}`]);

// A DGX-1 with V100s: who is joined by how many NVLinks, six a GPU, 25 GB/s each way (NVIDIA, DGX-1
// system architecture). The rest goes over PCIe.
const DGX = {
  top: 222, side: 20, gbytes: 25,
  at: [[100, 0], [10, 0], [10, 40], [100, 40], [190, 0], [280, 0], [280, 40], [190, 40]],
  links: [[0, 1, 1], [0, 2, 1], [0, 3, 2], [0, 4, 2], [1, 2, 2], [1, 3, 1], [1, 5, 2], [2, 3, 2], [2, 6, 1], [3, 7, 1],
    [4, 5, 1], [4, 6, 1], [4, 7, 2], [5, 6, 2], [5, 7, 1], [6, 7, 2]],
};

function dgx(svg) {
  const place = (gpu) => [MESH.bars + DGX.at[gpu][0] + DGX.side / 2, DGX.top + DGX.at[gpu][1] + DGX.side / 2];
  make(svg, "text", { class: "dl-small", x: MESH.bars, y: DGX.top - 16 }, "NVLinks of a DGX-1 (V100): thick is two");
  for (const [one, other, count] of DGX.links) {
    const [[x1, y1], [x2, y2]] = [place(one), place(other)];
    const bend = Math.abs(x2 - x1) > 200 ? (y1 > DGX.top + 20 ? 24 : -24) : 0; // around the two between
    const line = make(svg, "path", {
      class: HUES[count - 1], d: `M${x1} ${y1}Q${(x1 + x2) / 2} ${(y1 + y2) / 2 + bend} ${x2} ${y2}`,
      style: `stroke-width: ${2.5 * count - 1}`, "data-links": count,
    });
    make(line, "title", {}, `GPU ${one} and GPU ${other}: ${count} link${count > 1 ? "s" : ""}, ${count * DGX.gbytes} GB/s each way`);
  }
  DGX.at.forEach((_, gpu) => {
    const [x, y] = place(gpu);
    make(svg, "rect", {
      class: "dl-ghost", x: x - DGX.side / 2, y: y - DGX.side / 2, width: DGX.side, height: DGX.side, rx: 4,
      style: "fill: var(--dl-paper)",
    });
    make(svg, "text", { class: "dl-small", x, y: y + 5, "text-anchor": "middle" }, String(gpu));
  });
}

// What each device does: its stage, its layers, and its place among replicas and shares.
function devicesOf(stages) {
  const found = [];
  stages.forEach(([first, last, hosts, devices, dp, tp], stage) => {
    for (let k = 0; k < hosts * devices; k += 1) {
      const layers = last - first > 1 ? `layers ${first}–${last - 1}` : `layer ${first}`;
      const parts = [dp > 1 ? `replica ${Math.floor(k / tp) + 1} of ${dp}` : "", tp > 1 ? `share ${(k % tp) + 1} of ${tp}` : ""];
      found.push({ stage, layers, parts: parts.filter(Boolean) });
    }
  });
  while (found.length < MESH.hosts * MESH.devices) found.push({ stage: -1, layers: "idle", parts: [] });
  return found;
}

function mesh(svg, stages) {
  devicesOf(stages).forEach(({ stage, layers, parts }, device) => {
    const host = Math.floor(device / MESH.devices);
    const x = MESH.left + (device % MESH.devices) * (MESH.side + MESH.gap);
    const y = MESH.top + host * (MESH.side + 4 * MESH.gap);
    if (device % MESH.devices === 0) {
      make(svg, "text", { class: "dl-small", x, y: y - 8 }, `host ${host}`);
    }
    const box = make(svg, "rect", {
      class: stage < 0 ? "dl-ghost" : HUES[stage % HUES.length], x, y, width: MESH.side, height: MESH.side, rx: 4,
      "data-stage": stage,
    });
    make(box, "title", {}, stage < 0 ? `device ${device}: idle` : `device ${device}: stage ${stage}, ${layers}`);
    const lines = stage < 0 ? ["idle"] : [`stage ${stage}`, layers, ...parts];
    lines.forEach((line, k) => {
      const kind = stage < 0 ? "dl-small" : "dl-inside";
      make(svg, "text", { class: kind, x: x + MESH.side / 2, y: y + 30 + 19 * k, "text-anchor": "middle" }, line);
    });
  });
}

// What a step's time goes to, a bar a plan; a bar that is too long for the picture ends in dots.
function bars(svg, costs) {
  const most = 3 * costs.best[0];
  Object.entries(costs).forEach(([name, [cost, terms]], k) => {
    const y = MESH.top + 44 * k;
    make(svg, "text", { class: "dl-small", x: MESH.bars, y: y - 5 }, `${name}: ${seconds(cost)} a step`);
    let x = 0;
    Object.keys(TERM_NAMES).forEach((term, hue) => {
      const width = Math.min((MESH.wide * terms[term]) / most, MESH.wide - x);
      const bar = make(svg, "rect", { class: HUES[hue], x: MESH.bars + x, y, width, height: 18 });
      make(bar, "title", {}, `${TERM_NAMES[term]}: ${seconds(terms[term])}`);
      x += width;
    });
    if (cost > most) make(svg, "text", { x: MESH.bars + MESH.wide + 4, y: y + 13 }, "…");
  });
}

function render({ model, el }) {
  const get = (name) => model.get(name);
  const [title, table, speeds, counts] = ["title", "table", "speeds", "counts"].map(get);
  const note = "Each square is a device, its colour its stage. The bars say what a step's time goes to, in the best plan and in three simple ones.";
  const parts = frame(el, "dl-plan", title, note, LEGEND);
  const show = () => {
    const plan = table[`${get("model_name")} ${get("gbytes")} ${get("microbatches")}`];
    parts.svg.replaceChildren();
    room(parts.svg, 0, WIDTH);
    parts.svg.setAttribute("viewBox", `0 0 ${WIDTH} ${MESH.tall}`);
    mesh(parts.svg, plan.stages);
    dgx(parts.svg);
    bars(parts.svg, plan.costs);
    parts.status.textContent = plan.why;
    parts.svg.setAttribute("aria-label", `${title}. ${plan.why}`);
  };
  const select = choice(parts.controls, "Layers with", MODEL_NAMES, get("model_name"), (name) => {
    tell(model, "model_name", name);
    show();
  });
  const over = (name, label, values, words) => {
    const options = { min: 0, max: values.length - 1, step: 1, value: values.indexOf(get(name)), words: (p) => words(values[p]) };
    const one = slider(parts.controls, label, options, (p) => { tell(model, name, values[p]); show(); });
    return follow(model, name, (value) => { one.set(values.indexOf(value)); show(); });
  };
  const lets = [
    over("gbytes", "Link between hosts", speeds, bandwidth),
    over("microbatches", "Micro-batches", counts, (v) => String(v)),
    follow(model, "model_name", (name) => { select.value = name; show(); }),
  ];
  lets.push(live(parts, show));
  return () => lets.forEach((let_go) => let_go());
}

export default { render };
