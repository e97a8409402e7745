"""Every demo's page in a hall, on a phone, and from its first key on, measured in Chromium.

A word that the back row reads has 20 pixels; nothing may lie outside 1280 x 720, or be cut on a
phone of 390 x 844.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import DEMOS

PAGES = sorted(DEMOS.glob("*/*.html"))
MEASURES = Path(__file__).with_name("hall.js").read_text(encoding="utf-8")
LEAST_PX = 20
LEAST_PHONE_PX = 10
# Sizes are answered before the frame after the next: observers run within one.
SETTLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def opened(visit: Any, page: Path, width: int, height: int) -> tuple[Any, Any]:
    """Return a demo's page and its widget."""
    context = visit(reduced_motion="reduce")
    tab = context.context.new_page()
    tab.set_viewport_size({"width": width, "height": height})
    tab.goto(page.as_uri() + ("#hall" if width > height else ""))
    tab.evaluate(MEASURES)
    tab.evaluate(SETTLED)
    return tab, tab.locator("#player > *").first


def positions(tab: Any, widget: Any) -> Any:
    """Yield once for every state of a demo that differs in what stands where."""
    tabs = widget.locator("[role=tab]")
    for k in range(max(tabs.count(), 1)):
        if tabs.count():
            tabs.nth(k).click()
        for key in ("Home", "End") if tabs.count() else ("",):
            if key:
                widget.focus()
                tab.keyboard.press(key)
            tab.evaluate(SETTLED)
            yield f"tab {k} {key}"
        other = widget.locator(".mt-pane:visible")
        if other.count():
            other.click()
            tab.evaluate(SETTLED)
            yield f"tab {k}, its other part"
            other.click()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_keys_act_on_load_and_neither_a_hall_nor_a_phone_misses_anything(
    visit: Callable[..., Any], page: Path
) -> None:
    tab, widget = opened(visit, page, 1280, 720)
    keys_act_and_a_slider_takes_its_words_along(tab, widget)
    for state in positions(tab, widget):
        size, what = widget.evaluate("(root) => smallest(root)")
        assert size >= LEAST_PX, f"{state}: {what} has {size:.1f} pixels"
        assert widget.evaluate("(root) => beyond(root)") == [], state
    widget.focus()
    tab.keyboard.press("f")
    assert "in-hall" not in widget.get_attribute("class")
    tab.set_viewport_size({"width": 390, "height": 844})
    for state in positions(tab, widget):
        assert tab.evaluate("() => cutOnPhone()") == [], f"on a phone: {state}"
        size, what = widget.evaluate("(root) => smallest(root)")
        assert size >= LEAST_PHONE_PX, f"on a phone: {state}: {what} has {size:.1f} pixels"


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


def test_the_copies_of_the_hall_are_one() -> None:
    root = DEMOS.parents[1]
    for name in ("hall.js", "hall.css"):
        one, other = (root / package / "show" / name for package in ("minitorch", "ddp_lab"))
        assert one.read_bytes() == other.read_bytes()


def test_a_dragged_value_takes_the_gradients_along(visit: Callable[..., Any]) -> None:
    """(ab + a) ab with b = 3 is 12 a**2: its gradient is 24 a."""
    page = DEMOS / "autodiff_stepper" / "autodiff_stepper.html"
    tab, widget = opened(visit, page, 900, 1000)
    widget.get_by_role("tab", name="Used twice").click()
    status = widget.locator("[role=status]")
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
