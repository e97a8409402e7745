// The lab's panel: draws the trait `state`, sends the learner's wishes. No network, no HTML strings.

const SIGNS = { correct: "✓", incorrect: "✗", "not attempted": "○", unchecked: "·" };
const POLL_MS = 1500;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function checksOf({ checks_here: here, checks_more: more }) {
  if (!here) return "";
  return more ? `${plural(here, "check")} here, ${more} more at submission` : plural(here, "check");
}

function isDark() {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight !== undefined) return jpThemeLight === "false";
  if (vscodeThemeKind) return ["vscode-dark", "vscode-high-contrast"].includes(vscodeThemeKind);
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function outcomeOf(question) {
  if (question.manual) return ["unchecked", "for a person"];
  if (question.broken) return ["unchecked", "check is broken"];
  return [question.outcome, question.outcome === "unchecked" ? "not checked" : question.outcome];
}

// Save the notebook first, where JupyterLab lets us: what is sent is the file.
async function save() {
  const commands = window.jupyterapp?.commands;
  if (commands?.hasCommand("docmanager:save")) await commands.execute("docmanager:save");
}

function render({ model, el }) {
  const root = element("section", { class: "course-panel", "aria-label": "Lab progress" });
  const body = element("div");
  const said = element("p", { class: "said", role: "status", "aria-live": "polite" });
  root.append(body, said);
  el.append(root);

  let busy = "";
  let timer = 0;

  function wish(act, name = "") {
    if (busy) return;
    busy = `${act} ${name}`;
    draw();
    const sent = () => model.send({ act, name });
    if (act === "submit") save().then(sent, sent);
    else sent();
  }

  function button(label, act, name, kind = "") {
    const waits = busy === `${act} ${name}`;
    const attributes = {
      type: "button",
      class: kind,
      "data-key": `${act} ${name}`,
      onclick: () => wish(act, name),
    };
    if (name) attributes["aria-label"] = `${label}: ${name}`;
    if (busy) attributes["aria-disabled"] = "true";
    return element("button", attributes, waits ? `${label} …` : label);
  }

  function questionRow(question) {
    const [is, text] = outcomeOf(question);
    const row = element(
      "div",
      { class: "row" },
      element("span", { class: "outcome", "data-is": is }, `${SIGNS[is]} ${text}`),
      element("span", { class: "name" }, question.name),
      element("span", { class: "dim" }, question.points ? plural(question.points, "point") : "optional"),
      element("span", { class: "dim" }, checksOf(question)),
      element("span", { class: "space" }),
    );
    if (!question.manual) row.append(button("Check", "check", question.name));
    if (question.hints_left > 0) {
      row.append(button(question.hints.length ? "Next hint" : "Hint", "hint", question.name));
    }
    const item = element("li", { "data-question": question.name }, row);
    for (const { title, output } of question.failures) {
      item.append(element("p", { class: "property" }, `Does not hold: ${title}`));
      if (output) item.append(element("pre", {}, output));
    }
    question.hints.forEach((hint, index) =>
      item.append(element("p", { class: "hint" }, `Hint ${index + 1}: ${hint}`)),
    );
    return item;
  }

  function submissionLine(submission) {
    if (!submission) return "";
    const graded = submission.score !== null && submission.max_score !== null;
    const held = submission.held_back ? ", grades are held back" : "";
    const points = graded ? `: ${submission.score} of ${submission.max_score} points` : held;
    const link = element(
      "a",
      { href: submission.url, target: "_blank", rel: "noopener" },
      `Submission ${submission.number}`,
    );
    return element("span", { class: "submission" }, link, ` ${submission.state}${points}`);
  }

  function newsOf(news) {
    return element(
      "section",
      { class: "news", "aria-label": `Announcement ${news.id}` },
      element("p", { class: "dim" }, `Announced ${news.starts.slice(0, 10)} by ${news.by}`),
      element("p", { class: "text" }, news.text),
      button("Mark as read", "read", String(news.id)),
    );
  }

  function summary(state) {
    const counted = state.questions.filter((question) => !question.manual);
    const correct = counted.filter((question) => question.outcome === "correct").length;
    const all = counted.length > 0 && correct === counted.length;
    const text = all ? `All ${counted.length} correct` : `${correct} of ${counted.length} correct`;
    return `${text}, ${state.score} of ${plural(state.total, "point")}`;
  }

  function draw() {
    const state = model.get("state");
    if (!state?.questions) return;
    const focused = body.querySelector(":focus")?.dataset.key;
    const share = state.total ? (100 * state.score) / state.total : 0;
    const fill = element("span");
    fill.style.width = `${share}%`;
    const text = summary(state);
    const bar = {
      class: "bar",
      role: "progressbar",
      "aria-label": "Points",
      "aria-valuemin": "0",
      "aria-valuemax": String(state.total),
      "aria-valuenow": String(state.score),
      "aria-valuetext": text,
    };
    body.replaceChildren(
      element(
        "div",
        { class: "head" },
        element("h3", {}, state.title),
        element("span", { class: "dim" }, state.audience || ""),
        element("span", { class: "dim summary" }, text),
      ),
      element("div", bar, fill),
      ...(state.news ?? []).map(newsOf),
      element("ul", {}, ...state.questions.map(questionRow)),
      element(
        "div",
        { class: "foot" },
        button("Check all", "check all", ""),
        button("Submit", "submit", "", "main"),
        submissionLine(state.submission),
        element("span", { class: "dim dates" }, state.dates ?? ""),
      ),
    );
    const words = state.submission && state.said.startsWith("Submitted") ? "Submitted." : state.said;
    if (said.textContent !== words) said.textContent = words;
    if (focused) body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  function poll() {
    const submission = model.get("state").submission;
    const open = submission && !["graded", "parked"].includes(submission.state);
    clearTimeout(timer);
    if (open) timer = setTimeout(() => model.send({ act: "poll" }), POLL_MS);
  }

  function changed() {
    busy = "";
    draw();
    poll();
  }

  const theme = () => root.setAttribute("data-dark", String(isDark()));
  const watcher = new MutationObserver(theme);
  watcher.observe(document.body, { attributes: true });
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", theme);
  model.on("change:state", changed);
  theme();
  changed();
  model.send({ act: "dates" });

  return () => {
    clearTimeout(timer);
    watcher.disconnect();
    media.removeEventListener("change", theme);
    model.off("change:state", changed);
  };
}

export default { render };
