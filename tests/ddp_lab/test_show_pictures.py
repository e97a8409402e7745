"""The poster, the page and the widget: what they hold, and that their colours can be read."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import ddp_lab.show
from ddp_lab.show import RingPlayer, Story, poster, tell, watch
from tests.pages import Loads, contrast

FOLDER = Path(ddp_lab.show.__file__).parent


def swap(comm: Any, x: np.ndarray) -> np.ndarray:
    comm.send(x, 1 - comm.rank)
    return x + comm.recv(1 - comm.rank)


@pytest.fixture(scope="module")
def story() -> Story:
    return watch(swap, [np.arange(1.0, 5), np.arange(1.0, 5) * 10]).story("A <swap> & more")


def test_the_poster_is_well_formed_and_says_what_it_shows(story: Story) -> None:
    root = ElementTree.fromstring(poster(story))
    assert root.attrib["aria-label"] == (
        "A <swap> & more: 2 ranks, 2 messages in 1 round. "
        "The busiest rank sent 32 bytes, the idlest 32."
    )


def test_the_poster_of_a_run_without_contents_shows_bytes() -> None:
    root = ElementTree.fromstring(poster(tell([], 3)))
    assert "rank 2" in "".join(root.itertext())


@dataclass
class Sent:
    src: int
    dst: int
    n_bytes: int
    sent_at: float
    received_at: float


def test_the_poster_of_a_long_run_of_many_ranks_fits_a_page() -> None:
    steps = range(100)
    messages = [Sent(r, (r + 1) % 50, 8, float(k), k + 1.0) for k in steps for r in range(50)]
    story = tell(messages, 50)
    root = ElementTree.fromstring(poster(story))
    assert int(root.attrib["width"]) < 1200
    assert int(root.attrib["height"]) < 1200
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "100" in words  # the last round is there
    assert words.count("800") == 50  # and what each rank has sent by then


def test_the_page_loads_nothing(story: Story) -> None:
    loads = Loads()
    page = RingPlayer(story).page()
    loads.feed(page)
    assert loads.urls == []
    assert "default-src 'none'" in page
    assert not re.search(r"\bimport\b[^;]*from|url\((?!#)|fetch\(", page)


def test_no_text_of_a_story_can_leave_its_script() -> None:
    hostile = "</script><script>alert(1)</script> @MODULE@"
    text = RingPlayer(tell([], 2, title=hostile)).page()
    assert "<script>alert" not in text
    (data,) = re.findall(r"const state = (\{.*\});", text)
    assert json.loads(data)["story"]["title"] == hostile


def test_the_widget_has_a_poster_and_words_for_where_it_cannot_run(story: Story) -> None:
    player = RingPlayer(story)
    data, _ = player._repr_mimebundle_()
    assert data["image/svg+xml"] == poster(story)
    assert data["text/plain"].startswith("A <swap> & more: 2 ranks")
    assert "application/vnd.jupyter.widget-view+json" in data
    player.close()


def test_the_widget_saves_its_page(story: Story, tmp_path: Path) -> None:
    player = RingPlayer(story)
    assert player.save(tmp_path / "ring.html").read_text(encoding="utf-8") == player.page()
    player.close()


def test_contrast_of_black_on_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") < 4.5  # a specimen that must fail


def test_every_colour_can_be_read_on_its_paper_in_light_and_dark() -> None:
    css = (FOLDER / "ring_player.css").read_text()
    colours = re.findall(r"--rp-(\w+): light-dark\((#\w{6}), (#\w{6})\);", css)
    assert len(colours) == css.count("  --rp-")
    for k in (1, 2):
        theme = {colour[0]: colour[k] for colour in colours}
        paper = theme.pop("paper")
        low = {name: round(contrast(c, paper), 2) for name, c in theme.items()}
        assert min(low.values()) >= 4.5, low
