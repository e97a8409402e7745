"""Slides in a real browser: all of a slide is seen at once. Wide, for reveal.js comes by npm."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.browser, pytest.mark.wide]

# Of each slide how much of it lies below, and how much of its code at the right.
HIDDEN = """async () => {
  const found = [];
  for (const slide of Reveal.getSlides()) {
    const { h, v } = Reveal.getIndices(slide);
    Reveal.slide(h, v);
    await new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)));
    const right = [...slide.querySelectorAll("pre")].map((n) => n.scrollWidth - n.clientWidth);
    found.push([`${h}/${v}`, slide.scrollHeight - 700, Math.max(0, ...right)]);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def slides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the slides of one lab, and of the demos."""
    out = tmp_path_factory.mktemp("slides")
    lab = ROOT / "labs" / "04_dataflow_graphs"
    command = [sys.executable, str(ROOT / "scripts" / "slides.py"), str(lab), "-o", str(out)]
    subprocess.run([*command, "--no-run"], check=True, capture_output=True)
    return out


@pytest.mark.parametrize("name", ["04_dataflow_graphs", "demos"])
def test_nothing_of_a_slide_is_hidden(visit: Any, slides: Path, name: str) -> None:
    browser = visit(offline=True, reduced_motion="reduce")
    page = browser.open((slides / f"{name}.html").as_uri())
    page.wait_for_function("() => window.Reveal?.isReady()")
    found = page.evaluate(HIDDEN)
    assert len(found) > 5
    assert [entry for entry in found if entry[1] > 0 or entry[2] > 0] == []
    assert browser.hosts == {""}


def test_what_is_hidden_is_found(visit: Any, slides: Path) -> None:
    page = visit(offline=True).open((slides / "04_dataflow_graphs.html").as_uri())
    page.wait_for_function("() => window.Reveal?.isReady()")
    page.add_style_tag(content="pre { font-size: 40px !important; white-space: pre !important; }")
    assert any(entry[2] > 0 for entry in page.evaluate(HIDDEN))
