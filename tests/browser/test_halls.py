"""Every demo's page in a hall, on a phone, and from its first key on, measured in Chromium.

A word that the back row reads has 20 pixels; nothing may lie outside 1280 x 720, on something else
or on the edge of a box, or be cut on a phone of 390 x 844.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from .conftest import AUDIT, DEMOS

PAGES = sorted(DEMOS.glob("*/*.html"))
PLAYERS = [page for page in PAGES if '"Play"' in page.read_text(encoding="utf-8")]
MEASURES = Path(__file__).with_name("hall.js").read_text(encoding="utf-8")
LEAST_PX = 20
LEAST_PHONE_PX = 10
# Sizes are answered before the frame after the next: observers run within one.
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
SETTLED = f"() => {FRAMES}"
# What is smallest, and what each rule finds; asked at once, for to ask takes longer than to look.
LOOK = f"async (root, rules) => {{ await {FRAMES}; return look(root, rules); }}"
HALL = ["beyond", "onEdges", "offCentre", "collide", "clipped"]
PHONE = ["cutOnPhone", "clipped"]
CLICK = "(node) => node.click()"
KEYS = ("Home", "ArrowRight", "End", "ArrowLeft")


def opened(sheet: Any, page: Path, width: int, height: int) -> tuple[Any, Any]:
    """Return a demo's page and its widget."""
    tab = sheet(page.as_uri() + ("#hall" if width > height else ""), width, height)
    tab.evaluate(MEASURES)
    tab.evaluate(SETTLED)
    return tab, tab.locator("#player > *").first


def positions(tab: Any, widget: Any, keys: tuple[str, ...] = KEYS) -> Any:
    """Yield once for every state of a demo that differs in what stands where."""
    tabs = widget.locator("[role=tab]").element_handles()
    plays = widget.get_by_role("button", name="Play").count()
    for k in range(max(len(tabs), 1)):
        if tabs:
            tabs[k].evaluate(CLICK)
        for key in keys if plays else ("",):
            if key:
                widget.press(key)
            yield f"tab {k} {key}"
        for other in widget.locator(".mt-pane:visible").element_handles():
            other.evaluate(CLICK)
            yield f"tab {k}, its other part"
            other.evaluate(CLICK)


@pytest.mark.parametrize(
    "on_a_phone", [("ArrowRight", "End"), pytest.param(KEYS, marks=pytest.mark.wide)]
)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_keys_act_on_load_and_neither_a_hall_nor_a_phone_misses_anything(
    sheet: Callable[..., Any], page: Path, on_a_phone: tuple[str, ...]
) -> None:
    assert not re.search(r"\d us\b", page.read_text(encoding="utf-8"))
    tab, widget = opened(sheet, page, 1280, 720)
    keys_act_and_a_slider_takes_its_words_along(tab, widget)
    for state in positions(tab, widget):
        (size, what), broken = widget.evaluate(LOOK, HALL)
        assert size >= LEAST_PX, f"{state}: {what} has {size:.1f} pixels"
        assert broken == {}, state
    widget.focus()
    tab.keyboard.press("f")
    assert "in-hall" not in widget.get_attribute("class")
    tab.set_viewport_size({"width": 390, "height": 844})
    for state in positions(tab, widget, on_a_phone):
        (size, what), broken = widget.evaluate(LOOK, PHONE)
        assert broken == {}, f"on a phone: {state}"
        assert size >= LEAST_PHONE_PX, f"on a phone: {state}: {what} has {size:.1f} pixels"
    assert tab.evaluate("() => errors") == []


@pytest.mark.parametrize("name", ["adaptive_batching", "collectives_explorer", "plan_on_mesh"])
def test_a_window_narrower_than_a_projector_has_a_smaller_hall(
    sheet: Callable[..., Any], name: str
) -> None:
    tab, widget = opened(sheet, DEMOS / name / f"{name}.html", 800, 1000)
    tab.keyboard.press("f")
    for state in positions(tab, widget):
        assert widget.evaluate(LOOK, HALL)[1] == {}, state


def keys_act_and_a_slider_takes_its_words_along(tab: Any, widget: Any) -> None:
    assert "in-hall" in widget.get_attribute("class")
    slider = widget.locator("input[type=range]").first
    before = slider.evaluate("(node) => [node.value, node.getAttribute('aria-valuetext')]")
    tab.keyboard.press("ArrowLeft")
    after = slider.evaluate("(node) => [node.value, node.getAttribute('aria-valuetext')]")
    if before[0] == slider.evaluate("(node) => node.min"):
        tab.keyboard.press("ArrowRight")
        after = slider.evaluate("(node) => [node.value, node.getAttribute('aria-valuetext')]")
    assert before[0] != after[0]
    assert before[1] != after[1]
    tab.keyboard.press("Escape")
    assert "in-hall" not in widget.get_attribute("class")
    tab.keyboard.press("f")
    assert "in-hall" in widget.get_attribute("class")


@pytest.mark.parametrize("page", PLAYERS, ids=lambda page: page.stem)
def test_a_player_opens_at_its_beginning(sheet: Callable[..., Any], page: Path) -> None:
    _, widget = opened(sheet, page, 1280, 720)
    slider = widget.locator("input[type=range]").first
    assert slider.input_value() == "0"
    tabs = widget.locator("[role=tab]")
    for k in range(tabs.count()):
        widget.get_by_role("button", name="One step forward").click()
        tabs.nth(k).click()
        assert slider.input_value() == "0"


GRIDS = """(root) => [...root.querySelectorAll("[data-rank]")].map((rank) => {
  const cells = [...rank.querySelectorAll(".rp-cell")].map((cell) => cell.getBoundingClientRect());
  return [Math.min(...cells.map((c) => c.left)), Math.max(...cells.map((c) => c.right))];
})"""


def test_a_hall_sees_the_ring_and_its_numbers(sheet: Callable[..., Any]) -> None:
    page = DEMOS / "ring_player" / "ring_player.html"
    tab, widget = opened(sheet, page, 1280, 720)
    grids = widget.evaluate(GRIDS)
    assert max(right for _, right in grids) - min(left for left, _ in grids) > 0.65 * 1280
    assert min(right - left for left, right in grids) > 120
    widget.focus()
    tab.keyboard.press("ArrowRight")
    hops = widget.get_by_text("16 B", exact=True)
    assert hops.count() == len(grids)
    numbers = widget.locator("[data-rank='0'] .rp-inside").all_text_contents()
    assert sorted(numbers) == [*"0000", "3"]
    tab.keyboard.press("f")
    tab.evaluate(SETTLED)
    small = widget.evaluate(GRIDS)
    assert min(b - a for a, b in grids) > 1.5 * max(b - a for a, b in small)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("memory_plan", ["without a plan", "1.5 MiB", "336 KiB"]),
        ("graph_passes", ["fold", "algebra", "cse", "matmul_chain", "fuse"]),
        ("roofline", ["operations a second, at most", "matrix times vector"]),
        ("parameter_servers", ["time in steps"]),
    ],
)
def test_a_hall_sees_names_numbers_and_units(
    sheet: Callable[..., Any], name: str, words: list[str]
) -> None:
    _, widget = opened(sheet, DEMOS / name / f"{name}.html", 1280, 720)
    seen = widget.locator("svg text").all_text_contents()
    assert {*words} <= {*seen}


def test_the_winner_of_the_race_is_its_strongest_line(sheet: Callable[..., Any]) -> None:
    page = DEMOS / "search_race" / "search_race.html"
    for scheme in ("light", "dark"):
        tab, widget = opened(sheet, page, 1280, 720)
        tab.emulate_media(color_scheme=scheme)
        tab.evaluate(AUDIT)
        for k in range(widget.locator("[role=tab]").count()):
            widget.locator("[role=tab]").nth(k).click()
            widget.focus()
            tab.keyboard.press("End")
            said = re.search(r"trials (.+) (is|are level) in front", widget.inner_text())
            names = widget.locator("svg text.bold").all_text_contents()
            lines = widget.locator("svg path.wire[d*='h ']").evaluate_all(
                "(paths) => paths.map(strength)"
            )
            assert said
            assert names[lines.index(max(lines))] in re.findall(r"\w+", said[1])
            assert max(lines) > 1.5 * sorted(lines)[-2]


@pytest.mark.parametrize(
    ("name", "lines"),
    [("training_curves", "path[data-run]"), ("collectives_explorer", "path[data-algorithm]")],
)
def test_lines_that_run_together_are_all_seen(
    sheet: Callable[..., Any], name: str, lines: str
) -> None:
    _, widget = opened(sheet, DEMOS / name / f"{name}.html", 1280, 720)
    looks = widget.locator(lines).evaluate_all(
        "(paths) => paths.map(getComputedStyle).map((s) => [s.strokeDasharray, s.strokeWidth])"
    )
    assert len(looks) >= 4
    # Drawn later means on top: a line leaves something of the one below, beside it or in its gaps.
    for (_, below), (dash, above) in pairwise(looks):
        assert dash != "none" or float(below[:-2]) - float(above[:-2]) >= 1


def test_curves_say_what_they_send(sheet: Callable[..., Any]) -> None:
    page = DEMOS / "training_curves" / "training_curves.html"
    _, widget = opened(sheet, page, 1280, 720)
    sent = [
        re.search(r": ([\d.]+) KiB a step", name)
        for name in widget.locator(".dl-runs label").all_inner_texts()
    ]
    kib = [float(match[1]) for match in sent if match]
    assert kib[0] == pytest.approx(2 * kib[1], rel=0.01)
    assert kib[0] > 3 * kib[3] > 3 * kib[2]


def test_the_timeline_opens_where_overlap_is_worth_seeing(sheet: Callable[..., Any]) -> None:
    page = DEMOS / "ddp_timeline" / "ddp_timeline.html"
    _, widget = opened(sheet, page, 1280, 720)

    def saved() -> float:
        return float(widget.inner_text().split("Saved by overlap")[1].split("%")[0])

    assert saved() > 15
    assert "The difference: forward" in widget.inner_text()
    widget.get_by_role("slider", name="Bandwidth").press("End")
    assert saved() < 10
    assert "on another link:" in widget.inner_text()
    widget.get_by_role("button", name="As recorded").click()
    assert saved() > 15


def test_the_copies_of_the_hall_are_one() -> None:
    root = DEMOS.parents[1]
    for name in ("hall.js", "hall.css"):
        one, other = (root / package / "show" / name for package in ("minitorch", "ddp_lab"))
        assert one.read_bytes() == other.read_bytes()


def test_a_dragged_value_takes_the_gradients_along(sheet: Callable[..., Any]) -> None:
    """(ab + a) ab with b = 3 is 12 a**2: its gradient is 24 a."""
    page = DEMOS / "autodiff_stepper" / "autodiff_stepper.html"
    tab, widget = opened(sheet, page, 900, 1000)
    widget.get_by_role("tab", name="Used twice").click()
    status = widget.locator("[role=status]")
    widget.focus()
    tab.keyboard.press("End")
    assert "gradient of a is complete, 48" in status.inner_text()
    box = widget.locator("rect.box[data-handle=a]").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    for _ in range(3):
        x += 18
        tab.mouse.move(x, y)
    assert "gradient of a is complete, 120" in status.inner_text()
    tab.mouse.up()
    tab.mouse.move(x + 90, y)
    assert "gradient of a is complete, 120" in status.inner_text()
    knob = widget.get_by_role("slider", name="Value of a")
    knob.press("ArrowLeft")
    assert "gradient of a is complete, 96" in status.inner_text()


def test_a_dragged_temperature_changes_what_the_model_says(sheet: Callable[..., Any]) -> None:
    page = DEMOS / "attention" / "attention.html"
    tab, widget = opened(sheet, page, 1280, 720)
    tab.keyboard.press("End")

    def said() -> str:
        words = widget.locator("svg text", has_text="→").all_text_contents()
        return " ".join(word.removeprefix("→ ") for word in words)

    assert said() == "red cat was seen by old dog"
    first = widget.locator("svg rect.bar").first.bounding_box()
    box = widget.locator("rect.box[data-handle=temperature]").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 36, y)
    tab.mouse.up()
    assert widget.get_by_text("temperature = 4").count() == 1
    assert said() != "red cat was seen by old dog"
    assert widget.locator("svg rect.bar").first.bounding_box() == first  # it has itself alone
    name, knob = (widget.locator(f".mt-knob {part}").bounding_box() for part in ("span", "input"))
    assert name["x"] + name["width"] <= knob["x"]


def test_a_dragged_load_changes_how_long_the_same_requests_take(sheet: Callable[..., Any]) -> None:
    page = DEMOS / "continuous_batching" / "continuous_batching.html"
    _, widget = opened(sheet, page, 1280, 720)
    widget.focus()
    widget.press("End")
    steps = set[str | None]()
    knob = widget.get_by_role("slider", name="Value of load")
    knob.press("Home")
    for _ in range(4):
        assert (
            "at its end: request 9" in widget.inner_text()
        )  # the last of ten, at the end of any load
        steps.add(widget.locator("input[type=range]").first.get_attribute("aria-valuetext"))
        knob.press("ArrowRight")
    assert len(steps) > 1
    widget.get_by_role("tab", name="Continuous").click()
    assert widget.get_by_text("load = 32").count() == 1  # the other tab at the same load
