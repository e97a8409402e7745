"""The ring player in a real browser: as a page from a file, in Voila, in JupyterLab."""

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddp_lab.show import RingPlayer, watch
from tests.pages import expect

DEMO = Path(__file__).parents[2] / "labs" / "demos" / "ring_player"
ROUNDS = 6  # of a ring of 4

pytestmark = pytest.mark.browser

CELL = """import ipywidgets as widgets
import numpy as np
from ddp_lab.show import RingPlayer, watch
run = watch(lambda comm, x: comm.all_reduce(x, algorithm="ring"), [np.arange(8.0) + 1] * 2)
player = RingPlayer(run.story("Two ranks"))
heard = widgets.Label("nothing heard")
player.observe(lambda change: setattr(heard, "value", f"heard {change.new}"), "round")
widgets.VBox([player, heard])"""


def status(page: Any) -> Any:
    return page.locator(".ring-player [role=status]")


@pytest.fixture
def page(visit: Any) -> Any:
    return visit().open((DEMO / "ring_player.html").as_uri())


def test_the_page_plays_from_a_file_and_asks_for_nothing(visit: Any, stop_clock: Any) -> None:
    browser = visit()
    requests: list[str] = []
    browser.context.on("request", lambda request: requests.append(request.url))
    page = browser.open((DEMO / "ring_player.html").as_uri())
    expect(status(page)).to_have_text(f"Before the first of {ROUNDS} rounds.")
    stop_clock(page)
    page.get_by_label("Speed").select_option(label="speed 2")
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.clock.run_for(60_000)
    expect(status(page)).to_have_text(f"Round {ROUNDS} of {ROUNDS}.")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    assert requests == [(DEMO / "ring_player.html").as_uri()]


def test_the_page_works_by_keyboard_alone(page: Any, stop_clock: Any) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Back to the start")).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(status(page)).to_have_text(f"Round 1 of {ROUNDS}.")
    page.keyboard.press("End")
    expect(status(page)).to_have_text(f"Round {ROUNDS} of {ROUNDS}.")
    page.keyboard.press("ArrowLeft")
    expect(status(page)).to_have_text(f"Round 5 of {ROUNDS}.")
    page.get_by_label("Round", exact=True).focus()
    page.keyboard.press("Home")
    expect(status(page)).to_have_text(f"Before the first of {ROUNDS} rounds.")
    stop_clock(page)
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()


BOXES = """() => [...document.querySelectorAll(".ring-player g[data-rank]")].map((g) => {
  const { x, y, width, height } = g.getBBox();
  return [x, y, x + width, y + height];
})"""


@pytest.mark.parametrize(
    ("ranks", "algorithm"), [(1, "ring"), (8, "ring"), (64, "tree"), (64, "ring")]
)
def test_however_many_ranks_none_stands_on_another(
    sheet: Any, tmp_path: Path, ranks: int, algorithm: str
) -> None:
    inputs = [np.arange(8.0) * 2**rank for rank in range(ranks)]
    run = watch(lambda comm, x: comm.all_reduce(x, algorithm=algorithm), inputs)
    player = RingPlayer(run.story("Ranks"))
    page = sheet(player.save(tmp_path / "ring.html").as_uri())
    player.close()
    boxes = page.evaluate(BOXES)
    assert len(boxes) == ranks
    for (left, top, right, bottom), other in combinations(boxes, 2):
        assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
    view = page.locator(".rp-stage svg").get_attribute("viewBox")
    _, _, width, height = map(float, view.split())
    assert min(min(box) for box in boxes) >= 0
    assert max(box[2] for box in boxes) <= width
    assert max(box[3] for box in boxes) <= height
    bar = page.locator(".ring-player .rp-bar").last.evaluate("node => node.getBBox().y")
    assert bar < height


@pytest.fixture
def crowd(tmp_path: Path) -> str:
    inputs = [np.arange(64.0)] * 64
    run = watch(lambda comm, x: comm.all_reduce(x, algorithm="ring"), inputs, timeout_s=120.0)
    player = RingPlayer(run.story("64 ranks"))
    path = player.save(tmp_path / "ring.html")
    player.close()
    return path.as_uri()


def test_a_ring_of_64_ranks_plays_and_draws_a_round_once(
    visit: Any, audit: Any, stop_clock: Any, crowd: str
) -> None:
    page = visit().open(crowd)
    page.keyboard.press("Home")
    stop_clock(page)
    expect(status(page)).to_have_text("Before the first of 126 rounds.")
    page.evaluate(
        "() => { window.drawn = 0; const draw = SVGElement.prototype.replaceChildren;"
        " SVGElement.prototype.replaceChildren = function (...all) {"
        " window.drawn += 1; return draw.apply(this, all); } }"
    )
    page.get_by_role("button", name="One round forward").click()
    page.clock.run_for(100)
    expect(page.locator(".rp-message")).to_have_count(64)  # on their way
    page.clock.run_for(60_000)
    expect(status(page)).to_have_text("Round 1 of 126.")
    assert page.evaluate("window.drawn") == 2  # while they move, and when they are there
    messages = page.get_by_role("list", name="Messages of this round").get_by_role("listitem")
    expect(messages).to_have_count(64)
    page.get_by_label("Round", exact=True).focus()
    page.keyboard.press("End")
    expect(status(page)).to_have_text("Round 126 of 126.")
    assert audit(page, ".ring-player") == []


def test_the_picture_of_64_ranks_needs_no_scrolling(sheet: Any, crowd: str) -> None:
    page = sheet(crowd)
    stage = page.locator(".rp-stage")
    assert stage.evaluate("(node) => node.scrollWidth <= node.clientWidth")
    assert stage.evaluate("(node) => node.clientHeight") < 900  # of the window


def test_pressing_forward_twice_does_not_lose_a_round(page: Any) -> None:
    page.keyboard.press("Home")
    forward = page.get_by_role("button", name="One round forward")
    for _ in range(3):
        forward.click()
    expect(status(page)).to_have_text(re.compile("Round [23] of"))
    expect(status(page)).to_have_text(f"Round 3 of {ROUNDS}.")


def test_at_the_end_every_square_is_summed_over_all_ranks(page: Any) -> None:
    page.get_by_label("Round", exact=True).focus()
    page.keyboard.press("End")
    expect(page.locator("[data-rank] .rp-done")).to_have_count(4 * 4 * 4)
    expect(page.locator("[data-rank] .rp-part")).to_have_count(0)
    messages = page.get_by_role("list", name="Messages of this round").get_by_role("listitem")
    expect(messages).to_have_count(4)
    expect(messages.first).to_contain_text("summed over ranks 0, 1, 2 and 3 (16 bytes)")


def test_nothing_moves_where_motion_is_unwanted(sheet: Any) -> None:
    page = sheet((DEMO / "ring_player.html").as_uri())
    page.evaluate(
        "() => { window.frames_asked = 0; const ask = window.requestAnimationFrame;"
        " window.requestAnimationFrame = (f) => { window.frames_asked += 1; return ask(f); } }"
    )
    page.keyboard.press("Home")
    page.get_by_role("button", name="One round forward").click()
    expect(status(page)).to_have_text(f"Round 1 of {ROUNDS}.")
    page.get_by_role("button", name="Play").click()
    expect(status(page)).not_to_have_text(f"Round 1 of {ROUNDS}.")
    assert page.evaluate("window.frames_asked") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_takes_the_readers_colours(sheet: Any, scheme: str) -> None:
    page = sheet((DEMO / "ring_player.html").as_uri())
    page.emulate_media(color_scheme=scheme)
    paper = page.locator(".ring-player").evaluate(
        "(node) => getComputedStyle(node).backgroundColor"
    )
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}[scheme]


def test_without_scripts_the_page_shows_the_whole_run(visit: Any) -> None:
    page = visit(java_script_enabled=False).open((DEMO / "ring_player.html").as_uri())
    expect(page.get_by_role("img", name=re.compile("24 messages in 6 rounds"))).to_be_visible()


def test_the_demo_in_voila_records_the_run_that_is_chosen(
    voila: str, visit: Any, audit: Any
) -> None:
    browser = visit(reduced_motion="reduce")
    requests: list[str] = []
    browser.context.on("request", lambda request: requests.append(request.url))
    page = browser.open(f"{voila}voila/render/ring_player/ring_player.ipynb")
    title = page.locator(".ring-player h3")
    expect(title).to_have_text("Ring, 4 ranks")
    page.locator(".noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    expect(title).to_have_text("Ring, 5 ranks")
    page.locator(".widget-dropdown select").select_option(label="Everybody to rank 0 and back")
    expect(title).to_have_text("Everybody to rank 0 and back, 5 ranks")
    page.get_by_label("Round", exact=True).focus()
    page.keyboard.press("End")
    expect(status(page)).to_have_text("Round 8 of 8.")
    page.locator(".noUi-handle").focus()
    page.keyboard.press("End")
    expect(title).to_have_text("Everybody to rank 0 and back, 64 ranks")
    expect(status(page)).to_have_text("Before the first of 126 rounds.")
    assert audit(page, ".ring-player") == []
    assert [url for url in requests if not url.startswith((voila, "blob:", "data:"))] == []


def test_in_jupyterlab_keys_reach_the_player_and_the_kernel_hears_of_it(in_lab: Any) -> None:
    browser, page = in_lab([CELL])
    expect(status(page)).to_have_text("Before the first of 2 rounds.")
    page.get_by_role("button", name="Back to the start").focus()
    page.keyboard.press("ArrowRight")
    expect(status(page)).to_have_text("Round 1 of 2.")
    expect(page.get_by_text("heard 1", exact=True)).to_be_visible()
    page.get_by_role("slider", name="Round").press("ArrowRight")  # which Lab keeps from sliders
    expect(status(page)).to_have_text("Round 2 of 2.")
    assert browser.hosts <= {"127.0.0.1", ""}


def test_the_page_says_what_time_it_was_on_the_link(page: Any, stop_clock: Any) -> None:
    clock = page.locator(".rp-clock")
    expect(clock).to_have_text(re.compile(r"^On the link: 0 ms of [\d.]+ ms, as recorded\.$"))
    stop_clock(page)
    page.get_by_role("slider", name="Round").press("End")
    expect(clock).to_have_text(re.compile(r"^On the link: ([\d.]+) ms of \1 ms"))
