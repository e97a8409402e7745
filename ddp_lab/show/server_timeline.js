// Workers and a parameter server on a clock, recomputed while the sliders move. `simulate` is
// ddp_lab.simulate.parameter_server.run_on_clock, word for word: a test holds the two together.

const ROW = { left: 110, right: 30, height: 22, gap: 8, top: 44 };
const LEGEND = [
  ["dl-a", "computes a gradient"], ["dl-b", "too late: dropped"], ["dl-ghost", "waits"], ["dl-c", "the server applies an update"],
  ["line dl-mark", "the end"],
];

// Seconds of each worker in each step: 1, a little by chance, and `late` more in its late steps.
function timesOf({ draws, workers, backups, share, late }) {
  return draws.slice(0, workers + backups).map((row) => row.map((u) => 1 + 0.2 * u + (u < share ? late : 0)));
}

function simulate({ times, consistency, staleness, backups }) {
  const limit = times[0].length;
  const needs = times.length - backups;
  const sync = consistency === "sync";
  const at_work = new Map(times.map((_, worker) => [worker, 0])); // the step that each is in
  const steps = times.map(() => 0);
  const arrived = new Map(); // step -> workers, in order of arrival
  const run = { spans: [], applied: [], max_staleness: 0, dropped: 0, waited: 0, makespan: 0 };
  let computing = [];
  let waiting = [];
  let version = 0;
  let now = 0;
  const slowest = () => Math.min(...at_work.values());
  const lead = (step) => (sync || !at_work.size ? 0 : Math.max(0, step - slowest()));
  const mayPull = (step) => (sync ? version >= step : consistency === "async" || lead(step) <= staleness);
  const ask = ({ worker, since }) => {
    if (sync) steps[worker] = Math.max(steps[worker], version);
    const step = steps[worker];
    if (step >= limit) at_work.delete(worker);
    else if (mayPull(step)) {
      run.max_staleness = Math.max(run.max_staleness, lead(step));
      computing.push({ worker, step, asked_at: since, began_at: now, ended_at: now + times[worker][step] });
    } else waiting.push({ worker, since });
  };
  const takeSteps = () => {
    for (;;) {
      const here = arrived.get(version) || [];
      const part = new Set([...at_work.keys(), ...here]).size;
      if (!here.length || here.length < Math.min(needs, part)) return;
      run.dropped += here.length - Math.min(needs, part);
      arrived.delete(version);
      version += 1;
      run.applied.push({ at: now, gradients: Math.min(needs, part) });
    }
  };
  times.forEach((_, worker) => ask({ worker, since: 0 }));
  while (computing.length) {
    const next = computing.reduce((a, b) => (b.ended_at < a.ended_at || (b.ended_at === a.ended_at && b.worker < a.worker) ? b : a));
    computing = computing.filter((span) => span !== next);
    now = next.ended_at;
    at_work.set(next.worker, next.step + 1);
    steps[next.worker] = next.step + 1;
    const dropped = sync && next.step < version;
    run.spans.push({ ...next, dropped });
    run.waited += next.began_at - next.asked_at;
    const before = version;
    if (dropped) run.dropped += 1;
    else if (sync) {
      arrived.set(next.step, [...(arrived.get(next.step) || []), next.worker]);
      takeSteps();
    } else {
      version += 1;
      run.applied.push({ at: now, gradients: 1 });
    }
    const asking = { worker: next.worker, since: now };
    if (version !== before) {
      const again = [...waiting, asking];
      waiting = [];
      again.forEach(ask);
    } else ask(asking);
  }
  run.makespan = sync ? run.applied[run.applied.length - 1].at : now;
  return run;
}

function inputs(get) {
  const consistency = get("consistency");
  const backups = consistency === "sync" ? get("backups") : 0;
  const given = { draws: get("draws"), workers: get("workers"), backups, share: get("share"), late: get("late") };
  return { times: timesOf(given), consistency, staleness: get("staleness"), backups };
}

function draw(svg, run, count) {
  svg.replaceChildren();
  const end = Math.max(run.makespan, ...run.spans.map((span) => span.ended_at));
  const across = room(svg).width;
  const wide = across - ROW.left - ROW.right;
  const at = (s) => ROW.left + (wide * s) / end;
  const pitch = pitchOf(svg, count, ROW.height + ROW.gap, ROW.top + 30);
  const tall = pitch - Math.min(ROW.gap, pitch / 4);
  const y = (row) => ROW.top + row * pitch;
  make(svg, "text", { x: ROW.left - 8, y: 24, "text-anchor": "end" }, "server");
  make(svg, "line", { class: "dl-axis", x1: ROW.left, y1: 20, x2: ROW.left + wide, y2: 20 });
  for (const { at: when, gradients } of run.applied) {
    const mark = make(svg, "rect", { class: "dl-c", x: at(when) - 1.5, y: 11, width: 3, height: 18, "data-lane": "server" });
    make(mark, "title", {}, `after ${short(when)}: ${gradients} gradient${gradients === 1 ? "" : "s"}`);
  }
  for (let worker = 0; worker < count; worker += 1) {
    make(svg, "text", { x: ROW.left - 8, y: y(worker) + tall / 2 + 5, "text-anchor": "end" }, `worker ${worker + 1}`);
  }
  for (const { worker, step, asked_at, began_at, ended_at, dropped } of run.spans) {
    if (began_at > asked_at) {
      const gap = make(svg, "rect", { class: "dl-ghost", x: at(asked_at), y: y(worker) + 4, width: at(began_at) - at(asked_at), height: tall - 8 });
      make(gap, "title", {}, `waits ${short(began_at - asked_at)}`);
    }
    const hue = dropped ? "dl-b" : "dl-a";
    const box = make(svg, "rect", { class: hue, x: at(began_at), y: y(worker), width: Math.max(at(ended_at) - at(began_at) - 1, 0.75), height: tall, "data-lane": "worker" });
    make(box, "title", {}, `step ${step + 1}: ${short(began_at)} to ${short(ended_at)}${dropped ? ", dropped" : ""}`);
    const label = dropped ? "×" : `${step + 1}`;
    if (fitsIn(label, at(ended_at) - at(began_at))) {
      make(svg, "text", { class: "dl-inside", x: (at(began_at) + at(ended_at)) / 2, y: y(worker) + tall / 2 + 5, "text-anchor": "middle" }, label);
    }
  }
  const bottom = y(count);
  make(svg, "line", { class: "dl-mark", x1: at(run.makespan), y1: 8, x2: at(run.makespan), y2: bottom });
  for (const tick of ticks(end)) {
    make(svg, "line", { class: "dl-axis", x1: at(tick), y1: bottom, x2: at(tick), y2: bottom + 5 });
    make(svg, "text", { class: "dl-small", x: at(tick), y: bottom + 19, "text-anchor": "middle" }, short(tick));
  }
  make(svg, "text", { class: "dl-small", x: ROW.left - 12, y: bottom + 19, "text-anchor": "end" }, "time in steps");
  make(svg, "line", { class: "dl-axis", x1: ROW.left, y1: bottom, x2: ROW.left + wide, y2: bottom });
  svg.setAttribute("viewBox", `0 0 ${across} ${bottom + 28}`);
}

function numbers(list, run, count) {
  list.replaceChildren();
  const gradients = run.applied.reduce((sum, update) => sum + update.gradients, 0);
  const rows = [
    ["Time", `${short(run.makespan)} steps`], ["Updates", String(run.applied.length)], ["Gradients applied", String(gradients)],
    ["Dropped", String(run.dropped)], ["Gradients in a step's time", short(gradients / run.makespan)],
    ["Waited", `${Math.round((100 * run.waited) / (count * run.makespan))} %`], ["Furthest ahead at a pull", `${run.max_staleness} step${run.max_staleness === 1 ? "" : "s"}`],
  ];
  for (const [name, value] of rows) {
    const pair = make(list, "div");
    make(pair, "dt", {}, name);
    make(pair, "dd", {}, value);
  }
}

const KINDS = [["sync", "synchronous"], ["async", "asynchronous"], ["ssp", "stale synchronous"]];
const whole = (word) => (v) => `${v} ${word}${v === 1 ? "" : "s"}`;
const SLIDERS = [
  ["workers", "Workers", { min: 1, max: 12, step: 1, words: (v) => String(v) }],
  ["staleness", "Staleness", { min: 0, max: 8, step: 1, words: whole("step") }],
  ["backups", "Backup workers", { min: 0, max: 4, step: 1, words: (v) => String(v) }],
  ["share", "Steps that are late", { min: 0, max: 0.5, step: 0.01, words: (v) => `${Math.round(v * 100)} %` }],
  ["late", "Late by", { min: 0, max: 10, step: 0.5, words: (v) => `${short(v)} steps` }],
];

function render({ model, el }) {
  const get = (name) => model.get(name);
  const parts = frame(el, "dl-servers", get("title"),
    "The unit of time is a step that is not late.", LEGEND);
  const list = make(parts.root, "dl", { class: "dl-numbers" });
  const sliders = {};
  const show = () => {
    const given = inputs(get);
    const run = simulate(given);
    sliders.staleness.input.disabled = given.consistency !== "ssp";
    sliders.backups.input.disabled = given.consistency !== "sync";
    draw(parts.svg, run, given.times.length);
    numbers(list, run, given.times.length);
    const text = `${KINDS.find(([key]) => key === given.consistency)[1]}: ${run.applied.length} updates in the time of ${short(run.makespan)} steps, `
      + `${run.dropped} gradient${run.dropped === 1 ? "" : "s"} dropped.`;
    parts.status.textContent = text;
    parts.svg.setAttribute("aria-label", `${get("title")}. ${text}`);
  };
  const select = choice(parts.controls, "Consistency", KINDS, get("consistency"), (value) => { tell(model, "consistency", value); show(); });
  const lets = SLIDERS.map(([name, label, options]) => {
    sliders[name] = slider(parts.controls, label, { ...options, value: get(name) }, (value) => { tell(model, name, value); show(); });
    return follow(model, name, (value) => { sliders[name].set(value); show(); });
  });
  lets.push(follow(model, "consistency", (value) => { select.value = value; show(); }));
  lets.push(live(parts, show));
  return () => lets.forEach((let_go) => let_go());
}

export default { render };
export { simulate, timesOf };
