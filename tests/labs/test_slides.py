"""Slides: what they show of a lab, and that a page loads nothing from outside."""

import importlib
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autograder.authoring.source import load_lab
from autograder.records import Lab

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LAB = ROOT / "labs" / "09_ring_all_reduce"
LOADED = {
    ("script", "src"), ("img", "src"), ("iframe", "src"), ("link", "href"), ("source", "src"),
    ("video", "src"), ("audio", "src"), ("embed", "src"), ("object", "data"), ("image", "href"),
    ("use", "href"), ("image", "xlink:href"), ("use", "xlink:href"), ("video", "poster"),
}  # fmt: skip
IN_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?\s*((?:https?:)?//[^'\")\s]*)")


class Loads(HTMLParser):
    """Collects what a browser would load: not links, which a person follows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if (tag, name) in LOADED and value]
        styles = [value for name, value in attrs if name == "style" and value]
        self.found += [url for style in styles for url in IN_STYLE.findall(style)]


def outside(page: str) -> list[str]:
    """Return the addresses of other hosts that a page loads, in marks or in styles."""
    loads = Loads()
    loads.feed(page)
    addresses = [*loads.found, *IN_STYLE.findall(page)]
    return [address for address in addresses if re.match(r"(?:https?:)?//", address.strip())]


@pytest.fixture(scope="module")
def slides() -> ModuleType:
    return importlib.import_module("scripts.slides")


@pytest.fixture(scope="module")
def built(slides: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The slides of a lab and of the demos, over an empty vendor folder, without a run."""
    out, kept = tmp_path_factory.mktemp("slides"), tmp_path_factory.mktemp("vendor")
    demos = sorted((ROOT / "labs" / "demos").glob("*/*.html"))
    slides.build([LAB], demos, out, kept, run=False)
    return out


def test_no_page_loads_anything_from_outside(built: Path) -> None:
    pages = sorted(built.rglob("*.html"))
    assert len(pages) > 3
    assert {page.name: found for page in pages if (found := outside(page.read_text()))} == {}


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example/x.css">',
        "<style>@import url(https://fonts.example/css?family=A);</style>",
        '<p style="background: url(http://example.org/a.png)">',
        '<svg><image xlink:href="https://example.org/a.png"/></svg>',
    ],
)
def test_the_search_finds_what_a_browser_would_load(page: str) -> None:
    assert len(outside(page)) >= 1


def test_what_a_person_may_follow_is_no_load() -> None:
    assert outside('<a href="https://arxiv.org/abs/1802.05799">the paper</a>') == []


def cells_of(made: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (cell["cell_type"], cell["metadata"]["slideshow"]["slide_type"], cell["source"])
        for cell in made["cells"]
    ]


def test_a_section_is_a_column_and_each_beat_a_slide(slides: ModuleType, lab: Lab) -> None:
    found = cells_of(slides.deck(lab))
    sections = [text for _, kind, text in found if kind == "slide" and text.startswith("## ")]
    assert sum(bool(re.match(r"## \d", text)) for text in sections) >= 4
    beats = [text for _, _, text in found if text.startswith("**Predict")]
    assert len(beats) >= 4
    assert all(text.count("**Predict") <= 1 for _, _, text in found)


def test_slides_show_stubs_and_no_solution(slides: ModuleType, lab: Lab) -> None:
    found = cells_of(slides.deck(lab))
    stubs = [text for kind, _, text in found if kind == "code"]
    assert len(stubs) == sum(not question.manual for question in lab.questions)
    assert not any("### BEGIN" in text or "q.check" in text for _, _, text in found)
    assert not any("**Answer** (" in text for _, _, text in found)


def test_what_a_run_drew_is_shown_and_widgets_as_their_pictures(slides: ModuleType) -> None:
    lab = load_lab(LAB)
    data = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "1"},
        "image/svg+xml": "<svg/>",
        "text/plain": "a player",
    }
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    error = {"output_type": "error", "ename": "E", "evalue": "", "traceback": []}
    ran = [{"outputs": [output, error]} for _ in lab.cells]
    shown = [cell["outputs"] for cell in slides.deck(lab, ran)["cells"] if cell.get("outputs")]
    assert shown
    assert {tuple(o["data"]) for outputs in shown for o in outputs} == {
        ("image/svg+xml", "text/plain")
    }


def test_a_prediction_stays_alone_and_a_short_text_leads_to_its_code(slides: ModuleType) -> None:
    lab = load_lab(LAB)
    ran = [{"outputs": [printed("17")]} for _ in lab.cells]
    pairs = list(pairwise(cells_of(slides.deck(lab, ran))))
    shared = [text for (_, _, text), (_, kind, _) in pairs if kind == "-"]
    alone = [text for (_, _, text), (_, kind, _) in pairs if kind != "-"]
    assert shared and all(len(text) <= slides.SHORT for text in shared)
    assert not any("**Predict" in text for text in shared)
    assert any("**Predict" in text for text in alone)


def test_each_picture_has_a_slide_with_what_was_printed_before_it(slides: ModuleType) -> None:
    lab = load_lab(LAB)
    outputs = [printed("one"), drawn("a"), printed("two"), drawn("b"), printed("three")]
    ran = [{"outputs": outputs} for _ in lab.cells]
    shown = [cell["outputs"] for cell in slides.deck(lab, ran)["cells"] if cell.get("outputs")]
    assert len(shown) % 2 == 0
    for first, second in zip(shown[::2], shown[1::2], strict=True):
        assert first == outputs[:3] and second == outputs[3:]


def test_a_line_alone_loses_the_gaps_of_a_table_and_a_table_keeps_them(slides: ModuleType) -> None:
    lab = load_lab(LAB)
    table = "bytes      predicted\n    8            9\n"
    outputs = [printed("bytes        predicted        8\n"), drawn("a"), printed(table), drawn("b")]
    ran = [{"outputs": outputs} for _ in lab.cells]
    shown = [cell["outputs"] for cell in slides.deck(lab, ran)["cells"] if cell.get("outputs")]
    texts = {output["text"] for found in shown for output in found if "text" in output}
    assert texts == {"bytes  predicted  8\n", table}


def test_what_asks_the_grader_is_on_no_slide(slides: ModuleType, lab: Lab) -> None:
    ran = [{"outputs": [printed("62 of 62 points")]} for _ in lab.cells]
    texts = [text for _, _, text in cells_of(slides.deck(lab, ran))]
    assert not any(text.startswith("q.") or "need no reading.)" in text for text in texts)


def test_pictures_and_demos_are_light_as_the_slides_are(slides: ModuleType, built: Path) -> None:
    lab = load_lab(LAB)
    dark = drawn("<svg><style>@media(prefers-color-scheme:dark){p{fill:#fff}}</style></svg>")
    pages = [page.read_text() for page in (built / "demos").glob("*.html")]
    ran = [{"outputs": [dark]} for _ in lab.cells]
    pages.append(slides.page_of(slides.deck(lab, ran)))
    assert not any(slides.DARK.search(page) for page in pages)


def printed(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def drawn(text: str) -> dict[str, Any]:
    data = {"image/svg+xml": text}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def test_demos_have_a_slide_each_and_lie_beside(built: Path, slides: ModuleType) -> None:
    names = {page.name for page in (built / "demos").glob("*.html")}
    page = (built / "demos.html").read_text()
    assert names and all(f'src="demos/{name}"' in page for name in names)
    assert 'href="demos.html"' in (built / "index.html").read_text()


@pytest.mark.wide
@pytest.mark.browser
def test_the_pages_turn_in_a_browser_that_asks_nobody(
    slides: ModuleType, tmp_path: Path, chromium_path: str
) -> None:
    """With the real reveal.js and MathJax, which npm fetches."""
    from playwright.sync_api import sync_playwright

    kept = slides.vendor(ROOT / "build" / "vendor")
    slides.build([LAB], [], tmp_path, kept, run=False)
    asked: list[str] = []
    said: list[str] = []
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=chromium_path, args=flags)
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((tmp_path / f"{LAB.name}.html").as_uri())
        page.wait_for_function("window.Reveal && Reveal.isReady()")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("Reveal.getIndices().h === 1")
        page.wait_for_selector("mjx-container svg", state="attached")
        browser.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert said == []


def test_a_talk_has_a_slide_a_heading_and_notes_for_the_speaker(slides: ModuleType) -> None:
    talk = (ROOT / "labs" / "talk_template.md").read_text(encoding="utf-8")
    notebook = slides.talk_deck(talk)
    kinds = [cell["metadata"]["slideshow"]["slide_type"] for cell in notebook["cells"]]
    assert kinds.count("slide") == talk.count("\n## ") + 1
    assert kinds.count("notes") == talk.count("Notes:") == 2
    assert notebook["metadata"]["title"] == "Title of the paper"
    page = slides.page_of(notebook)
    assert "Draw it while you speak." in page and 'class="notes"' in page


def test_a_talk_that_is_not_there_is_said_so(slides: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="there is no talk"):
        slides.main(["--talk", str(tmp_path / "none.md"), "-o", str(tmp_path)])


def test_the_page_on_talks_has_a_rubric_that_a_lab_can_take(tmp_path: Path) -> None:
    text = (DOCS / "talks.md").read_text(encoding="utf-8")
    (cell,) = re.findall(r"(?s)```python\n(.*?)```", text)
    (tmp_path / "lab.py").write_text(f"# %% [markdown]\n# # Lab\n\n{cell}", encoding="utf-8")
    (question,) = load_lab(tmp_path).questions
    assert question.manual and sum(item.points for item in question.rubric) == question.points
    rows = re.findall(r"(?m)^\| ([\w ]+) \| (\d+) \|", text)
    assert sum(int(minutes) for _, minutes in rows) == 15
