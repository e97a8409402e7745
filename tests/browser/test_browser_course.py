"""The whole way in a real browser: open a lab, run it, see it correct, submit, see the grade."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import load_lab
from autograder.service.client import Connection

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests/autograder/sample_labs/scale_and_sum"
RING = ROOT / "labs/09_ring_all_reduce"
NOTEBOOK = json.dumps(
    {"cells": [{"cell_type": "code", "source": "def scale(x, factor):\n    return x"}]}
).encode()

# The same number twice: whatever a lab's points are, all of them.
ALL_CORRECT = re.compile(r"All \d+ correct, (\S+) of \1 points")

LAB_MS = 240_000  # to run a whole lab, or to grade it, beside other work

pytestmark = pytest.mark.browser

KERNEL_IS_IDLE = """() => {
  const context = window.jupyterapp?.shell?.currentWidget?.sessionContext;
  const kernel = context?.session?.kernel;
  return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""

# Text, its colour and the colour behind it, for every element that has text of its own.
CONTRASTS = """(root) => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [root, ...root.querySelectorAll("*")]
    .filter((node) => [...node.childNodes].some((c) => c.nodeType === 3 && c.data.trim()))
    .filter((node) => node.checkVisibility())
    .map((node) => {
      const front = luminance(parse(getComputedStyle(node).color).slice(0, 3));
      const back = luminance(ground(node));
      const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
      return [node.textContent.trim().slice(0, 40), ratio];
    });
}"""


def full_marks(lab: Path) -> str:
    """Return what the server says of a solution: all points of the checks, of those of the lab."""
    questions = load_lab(lab).questions
    checked = sum(q.points for q in questions if not q.manual)
    return f"{checked:g} of {sum(q.points for q in questions):g} points"


def solved(lab: Path, change: tuple[str, str] = ("", "")) -> dict[str, Any]:
    """Return the solution of a lab, with a last cell that shows the panel.

    `change` replaces one text by another: a wrong answer.
    """
    notebook: dict[str, Any] = json.loads(solution_notebook(load_lab(lab)).replace(*change))
    last = {"cell_type": "code", "id": "panel", "metadata": {}, "source": "q"}
    notebook["cells"].append({**last, "outputs": [], "execution_count": None})
    return notebook


def faint(page: Any, selector: str) -> list[Any]:
    """Return the texts whose contrast is below 4.5 to 1."""
    found = page.locator(selector).first.evaluate(CONTRASTS)
    assert found
    return [entry for entry in found if entry[1] < 4.5]


def open_lab(started: Any, visit: Any, path: str) -> Any:
    base, _, token = started.jupyter.partition("?")
    page = visit.open(f"{base}/tree/{path}?{token}&reset")
    page.wait_for_function(KERNEL_IS_IDLE)
    return page


def run_all(page: Any) -> None:
    page.evaluate(
        "() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); return 1 }"
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "lab", [SAMPLE, pytest.param(RING, marks=pytest.mark.wide)], ids=lambda lab: lab.name
)
def test_a_learner_opens_a_lab_runs_it_submits_and_sees_the_grade(
    started: Any, visit: Any, lab: Path
) -> None:
    from playwright.sync_api import expect

    browser = visit()
    path = f"{lab.name}/solved.ipynb"
    (started.work / path).write_text(json.dumps(solved(lab)))
    page = open_lab(started, browser, path)
    run_all(page)
    panel = page.locator(".course-panel").last
    expect(panel.locator(".summary")).to_have_text(ALL_CORRECT, timeout=LAB_MS)
    assert faint(page, ".course-panel") == []
    panel.get_by_role("button", name="Submit").click()
    said = re.compile(f"graded: {full_marks(lab)}")
    expect(panel.locator(".submission")).to_have_text(said, timeout=LAB_MS)
    with browser.context.expect_page() as opened:
        panel.locator(".submission a").click()
    grade = opened.value
    grade.wait_for_url(f"{started.server}/submissions/*")
    expect(grade.locator(".grade")).to_have_text(full_marks(lab))
    expect(grade.locator(".badge.correct").first).to_be_visible()
    assert browser.hosts <= {"127.0.0.1", ""}


def test_the_panel_works_by_keyboard_in_the_dark(started: Any, in_lab: Any) -> None:
    from playwright.sync_api import expect

    change = ("return x * factor", "return x + factor")
    staff = (started.work / ".course" / "instructor.token").read_text().strip()
    news = Connection(started.server, staff).send(
        "POST", "announcements", body={"text": "No lab on *Monday*."}
    )["id"]
    cells = [cell for cell in solved(SAMPLE, change)["cells"] if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]) for cell in cells]
    _, page = in_lab(sources, theme="Dark", height=3000, folder=SAMPLE.name)
    panel = page.locator(".course-panel")
    expect(panel.locator(".summary")).to_contain_text("2 of 3 correct")
    expect(panel).to_have_attribute("data-dark", "true")
    hint = panel.get_by_role("button", name="Hint: scale")
    hint.focus()
    page.keyboard.press("Enter")
    expect(panel.locator(".hint")).to_have_text("Hint 1: What is the shape of x?")
    expect(panel.get_by_role("button", name="Next hint: scale")).to_be_focused()
    expect(panel.locator(".property")).to_contain_text("every element is multiplied")
    expect(panel.locator(".news")).to_contain_text("No lab on *Monday*.")
    assert faint(page, ".course-panel") == []
    panel.get_by_role("button", name=f"Mark as read: {news}").focus()
    page.keyboard.press("Enter")
    expect(panel.locator(".news")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_are_readable_and_run_no_script(started: Any, visit: Any, scheme: str) -> None:
    staff = (started.work / ".course" / "instructor.token").read_text().strip()
    ada = (started.work / ".course" / "learner.token").read_text().strip()
    connection = Connection(started.server, ada)
    number = connection.submit("scale_and_sum", NOTEBOOK)["id"]
    page = visit(color_scheme=scheme).open(started.server)
    assert urlsplit(page.url).path == "/login"
    assert faint(page, "body") == []
    page.fill("#token", staff)
    page.keyboard.press("Enter")
    page.wait_for_url("**/today")
    page.goto(f"{started.server}/submissions/{number}")
    page.wait_for_selector(".badge.incorrect")
    for path in ("today", "gradebook", "submissions", f"submissions/{number}"):
        page.goto(f"{started.server}/{path}")
        assert faint(page, "body") == []
        sources = page.evaluate("() => [...document.scripts].map((s) => s.getAttribute('src'))")
        assert sources == ["/static/course.js"]  # ours alone, and none in the page
    page.goto(f"{started.server}/submissions/{number}/report")
    assert faint(page, "main") == []
