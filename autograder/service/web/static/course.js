// What pages do without being loaded anew: they wait for a grade, and are walked by keyboard.

const main = document.querySelector("main");

// A submission that waits says so in data-live; the server answers when its state changes.
async function wait(live) {
  const seen = live.dataset.state;
  const began = Date.now();
  try {
    const answer = await fetch(`${live.dataset.live}?seen=${encodeURIComponent(seen)}`);
    if (answer.redirected) return location.reload(); // to the login: the session has ended
    const { state } = await answer.json();
    if (state !== seen) return show();
  } catch {
    await pause(5000); // the server is away
  }
  if (Date.now() - began < 1000) await pause(5000); // it has no place for one more that waits
  return wait(live);
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function show() {
  const answer = await fetch(location.href);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const focused = document.activeElement?.id;
  main.replaceChildren(...fresh.querySelector("main").childNodes);
  document.title = fresh.title;
  if (focused) document.getElementById(focused)?.focus();
  const grade = main.querySelector(".grade");
  document.getElementById("said").textContent = grade ? grade.textContent : "";
  watch();
}

function watch() {
  const live = document.querySelector("[data-live]");
  if (live) wait(live);
}

// Keys: n and p for the next and the previous, and what a page gives to others in data-key. Not
// while somebody writes: in the field of a number letters are none.
document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (key === "Enter" && event.ctrlKey && target.form) return target.form.requestSubmit();
  if (key === "Escape" && target.form) return target.blur();
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const number = target.matches("input[type=number]") && !/[-+.,e0-9]/.test(key);
  if (!number && target.matches("input:not([type=checkbox]), textarea, select")) return;
  const rel = { n: "next", p: "prev" }[key];
  const sought = rel ? `a[rel="${rel}"]` : `[data-key="${CSS.escape(key)}"]`;
  const found = document.querySelector(sought);
  if (!found) return;
  event.preventDefault();
  if (found.matches("#points, #comment")) found.focus();
  else found.click();
});

document.addEventListener("click", (event) => {
  const { comment, opens } = event.target.dataset;
  if (opens) document.getElementById(opens).showModal();
  if (!comment) return; // one that is kept: a line more, once
  const field = event.target.form.elements.comment;
  const lines = field.value.split("\n").filter(Boolean);
  if (!lines.includes(comment)) field.value = [...lines, comment].join("\n");
});

// A second click on a button that sends a form is not a second form: what comes within a second of
// the first is let go. Later one may send again, as what gives a file, or what the network lost.
const sent = new WeakMap();
document.addEventListener("submit", (event) => {
  if (event.timeStamp - (sent.get(event.target) ?? -Infinity) < 1000) event.preventDefault();
  else sent.set(event.target, event.timeStamp);
});

// A date with its zone, as text, becomes a picker in the browser's zone, which is shown beside it.
// What is not touched is sent as it was.
function pick(field) {
  const picker = field.cloneNode();
  const zone = document.createElement("span");
  const local = (at) => new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
  const offset = (at) => {
    const ahead = -at.getTimezoneOffset();
    const two = (n) => String(Math.floor(n)).padStart(2, "0");
    return `${ahead < 0 ? "-" : "+"}${two(Math.abs(ahead) / 60)}:${two(Math.abs(ahead) % 60)}`;
  };
  const say = (at) => {
    const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
    zone.textContent = `UTC${offset(at)}${name === "UTC" ? "" : ` ${name}`}`;
  };
  const was = field.value ? new Date(field.value) : null;
  if (was && isNaN(was)) return; // it is shown as it is
  picker.type = "datetime-local";
  picker.removeAttribute("name");
  picker.removeAttribute("data-date");
  picker.value = was ? local(was).replace(/:00$/, "") : "";
  if (was && was.getSeconds()) picker.step = 1;
  zone.className = "dim zone";
  say(was ?? new Date());
  picker.addEventListener("change", () => {
    const at = new Date(picker.value);
    field.value = isNaN(at) ? "" : `${local(at)}${offset(at)}`;
    if (!isNaN(at)) say(at);
  });
  field.removeAttribute("id");
  field.removeAttribute("aria-label");
  field.type = "hidden";
  field.after(picker, zone);
}
for (const field of document.querySelectorAll("[data-date]")) pick(field);
for (const field of document.querySelectorAll("[data-zone]"))
  field.value = Intl.DateTimeFormat().resolvedOptions().timeZone;

// Ticking the items of a rubric fills in their points; what is typed afterwards counts.
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-points]")) return;
  const form = event.target.form;
  const ticked = [...form.querySelectorAll("[data-points]:checked")];
  const sum = ticked.reduce((total, box) => total + Number(box.dataset.points), 0);
  form.elements.points.value = Math.round(sum * 1e6) / 1e6;
});

watch();
