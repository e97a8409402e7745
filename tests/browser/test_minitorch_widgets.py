"""Minitorch's widgets in a real browser: as pages from files, in Voila, in JupyterLab.

One Voila and one JupyterLab serve all of them. Nothing may leave the machine.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.pages import expect

DEMOS = Path(__file__).parents[2] / "labs" / "demos"
NAMES = [
    "autodiff_stepper",
    "graph_passes",
    "memory_plan",
    "switch_merge_tokens",
    "symbolic_and_imperative",
]
FIRST = {  # what each says before its first step, and a word of its first step
    "autodiff_stepper": ("Before the first step", "Forward 1 of"),
    "graph_passes": ("As built", "Pass 1 of"),
    "memory_plan": ("Before the run", "Node 1 of"),
    "switch_merge_tokens": ("Before the run", "Token 1 of"),
    "symbolic_and_imperative": ("Before the first line", "Imperative"),
}

pytestmark = pytest.mark.browser

CELLS = [
    """import ipywidgets as widgets
import minitorch as mt
import minitorch.graph as tf
from minitorch.show import both_ways, compare_passes, follow_tokens, map_memory, show, step_through
x = mt.tensor([1.0, 2.0], requires_grad=True)
loss = (x * x).sum()
player = step_through(loss, names={"x": x}).player()
heard = widgets.Label("nothing heard")
player.observe(lambda change: setattr(heard, "value", f"heard {change.new}"), "at")
widgets.VBox([player, heard])""",
    """a = tf.placeholder("float32", (), name="a")
follow_tokens(tf.cond(a > 0.0, lambda: a * 2.0, lambda: -a), {a: 1.0})""",
    """b = tf.placeholder("float32", (2, 2), name="b")
compare_passes(tf.exp(b) + tf.exp(b), passes=["cse"])""",
    "map_memory(tf.matmul(tf.exp(b), b))",
    'both_ways("x = mt.tensor([1.0])", "x = tf.constant([1.0])")',
    "show(tf.reduce_sum(tf.exp(b)), feed_dict={b: [[0.0, 1.0], [2.0, 3.0]]})",
]


def status(scope: Any) -> Any:
    return scope.locator(".mt-player [role=status]").first


def page_of(name: str) -> str:
    return (DEMOS / name / f"{name}.html").as_uri()


def heard_by(browser: Any) -> tuple[list[str], list[str]]:
    """Return the requests, and the errors of the pages, that a visit makes from here on."""
    requests: list[str] = []
    errors: list[str] = []
    browser.context.on("request", lambda request: requests.append(request.url))
    browser.context.on("weberror", lambda error: errors.append(str(error.error)))
    return requests, errors


# ── pages from files, the network blocked ───────────────────────────────────────────────────────


@pytest.mark.parametrize("name", NAMES)
def test_a_page_works_by_keyboard_and_asks_for_nothing(visit: Any, name: str) -> None:
    browser = visit(offline=True, reduced_motion="reduce")
    requests, errors = heard_by(browser)
    page = browser.open(page_of(name))
    before, first = FIRST[name]
    expect(status(page)).to_contain_text(before)
    tabs = page.get_by_role("tab")
    page.keyboard.press("Tab")
    expect(tabs.nth(0)).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tabs.nth(1)).to_be_focused()
    expect(tabs.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Back to the start")).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(status(page)).to_contain_text(first)
    page.keyboard.press("End")
    last = page.get_by_label("Step", exact=True).get_attribute("max")
    picture = page.locator(".mt-stage > svg")
    expect(picture).to_have_attribute("aria-label", re.compile(f"Step {last} of {last}"))
    page.get_by_label("Step", exact=True).focus()
    page.keyboard.press("Home")
    expect(status(page)).to_contain_text(before)
    assert requests == [page_of(name)]
    assert errors == []


def test_play_goes_to_the_end_and_what_travels_is_drawn(visit: Any, stop_clock: Any) -> None:
    page = visit(offline=True).open(page_of("autodiff_stepper"))
    stop_clock(page)
    page.get_by_label("Speed").select_option(label="speed 2")
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.clock.run_for(100)
    expect(page.locator(".mt-stage .dot").first).to_be_attached()
    page.clock.run_for(60_000)
    expect(status(page)).to_contain_text("Backward 6 of 6")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    expect(page.locator(".mt-stage .dot")).to_have_count(0)


def test_pressing_forward_many_times_loses_no_step(visit: Any) -> None:
    page = visit(offline=True).open(page_of("autodiff_stepper"))
    page.keyboard.press("Home")
    forward = page.get_by_role("button", name="One step forward")
    for _ in range(3):
        forward.click()
    expect(status(page)).to_contain_text("Forward 3 of 4")


def test_nothing_moves_where_motion_is_unwanted(sheet: Any) -> None:
    page = sheet(page_of("autodiff_stepper"))
    page.evaluate(
        "() => { window.frames_asked = 0; const ask = window.requestAnimationFrame;"
        " window.requestAnimationFrame = (f) => { window.frames_asked += 1; return ask(f); } }"
    )
    page.keyboard.press("Home")
    page.get_by_role("button", name="One step forward").click()
    expect(status(page)).to_contain_text("Forward 1 of 4")
    page.get_by_role("button", name="Play").click()
    expect(status(page)).not_to_contain_text("Forward 1 of 4")
    assert page.evaluate("window.frames_asked") == 0
    fresh = page.locator(".mt-fresh").first
    assert fresh.evaluate("(node) => getComputedStyle(node).animationName") == "none"


CONTRASTS = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map((part) => Number(part) / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const root = document.querySelector(".mt-player");
  const paper = getComputedStyle(root).backgroundColor;
  const boxes = [...root.querySelectorAll("svg rect")].filter((rect) => {
    const fill = getComputedStyle(rect).fill;
    return fill !== "none";
  });
  const found = [];
  for (const text of root.querySelectorAll("svg text")) {
    const place = text.getBoundingClientRect();
    if (!place.width) continue;
    const [x, y] = [place.x + place.width / 2, place.y + place.height / 2];
    const under = boxes.filter((rect) => {
      const b = rect.getBoundingClientRect();
      return b.x <= x && x <= b.right && b.y <= y && y <= b.bottom;
    }).pop();
    const ground = under ? getComputedStyle(under).fill : paper;
    const ink = getComputedStyle(text).fill;
    found.push([contrast(ink, ground), text.textContent, text.className.baseVal]);
  }
  for (const node of root.querySelectorAll("h3, p, button, select, li")) {
    const own = getComputedStyle(node);
    const ground = own.backgroundColor === "rgba(0, 0, 0, 0)" ? paper : own.backgroundColor;
    found.push([contrast(own.color, ground), node.textContent, node.className]);
  }
  return found;
}"""


@pytest.mark.parametrize("name", NAMES)
def test_every_text_stands_out_in_the_readers_colours(sheet: Any, name: str) -> None:
    page = sheet(page_of(name))
    player = page.locator(".mt-player")
    page.get_by_label("Step", exact=True).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "End"):
        page.keyboard.press(key)
        for scheme, paper in {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}.items():
            page.emulate_media(color_scheme=scheme)
            assert player.evaluate("(node) => getComputedStyle(node).backgroundColor") == paper
            found = page.evaluate(CONTRASTS)
            assert len(found) > 10
            assert min(found)[0] >= 4.5, (scheme, min(found))


def test_a_text_that_does_not_stand_out_is_found(sheet: Any) -> None:
    page = sheet(page_of("autodiff_stepper"))
    page.add_style_tag(content=".mt-player svg text.muted { fill: #8a939c !important; }")
    ratio, _, classes = min(page.evaluate(CONTRASTS))
    assert ratio < 4.5
    assert "muted" in classes


@pytest.mark.parametrize("name", NAMES)
def test_without_scripts_a_page_shows_posters_and_says_what_they_are(visit: Any, name: str) -> None:
    page = visit(offline=True, java_script_enabled=False).open(page_of(name))
    posters = page.locator("svg.mt-poster")
    expect(posters).to_have_count(2)
    expect(posters.first).to_be_visible()
    assert len(posters.first.get_attribute("aria-label")) > 40


# ── Voila ───────────────────────────────────────────────────────────────────────────────────────


SOME_IN_VOILA = ("autodiff_stepper", "symbolic_and_imperative")  # a choice, and a button
CHOICES = {  # a choice in the notebook, and what the widget is called then
    "autodiff_stepper": ("A value used twice", "A value used twice"),
    "graph_passes": ("Three products of one input", "Three products of one input"),
    "memory_plan": ("1024", "4 layers, forward and backward"),
    "switch_merge_tokens": ("Double until 30", "Double until 30, for x = 6"),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SOME_IN_VOILA else pytest.mark.wide) for name in NAMES],
)
def test_a_demo_in_voila_is_recorded_anew_and_stepped(
    voila: str, visit: Any, audit: Any, name: str
) -> None:
    browser = visit(reduced_motion="reduce")
    requests, errors = heard_by(browser)
    page = browser.open(f"{voila}voila/render/{name}/{name}.ipynb")
    before, first = FIRST[name]
    expect(status(page)).to_contain_text(before)
    shown_first = page.locator(".mt-player").element_handle()
    if name in CHOICES:
        option, title = CHOICES[name]
        page.locator(".widget-dropdown select").first.select_option(label=option)
        expect(page.locator(".mt-player h3")).to_have_text(title)
    else:
        page.get_by_role("button", name="Run both").click()
    page.wait_for_function("(node) => !node.isConnected", arg=shown_first)
    expect(page.locator(".mt-player")).to_have_count(1)
    page.get_by_role("button", name="Back to the start").click()
    page.get_by_role("button", name="One step forward").click()
    expect(status(page)).to_contain_text(first)
    assert audit(page, ".mt-player") == []
    assert [url for url in requests if not url.startswith((voila, "blob:", "data:"))] == []
    assert errors == []


# ── JupyterLab ──────────────────────────────────────────────────────────────────────────────────


def test_in_jupyterlab_every_widget_plays_and_the_kernel_hears_of_it(in_lab: Any) -> None:
    browser, page = in_lab(CELLS, height=6000, reduced_motion="reduce")
    players = page.locator(".mt-player")
    expect(players).to_have_count(len(CELLS))
    for i in range(len(CELLS)):
        player = players.nth(i)
        player.get_by_role("button", name="Back to the start").click()
        before = player.locator("[role=status]").text_content()
        page.keyboard.press("ArrowRight")
        expect(player.locator("[role=status]")).not_to_have_text(before)
    expect(page.get_by_text("heard 1", exact=True)).to_be_visible()
    tabs = players.last.get_by_role("tab")
    expect(tabs).to_have_text(["Forward and backward", "Tokens", "Memory", "Passes"])
    tabs.nth(2).click()
    expect(players.last.locator("[role=status]")).to_contain_text("Before the run: every buffer")
    assert browser.hosts <= {"127.0.0.1", ""}
