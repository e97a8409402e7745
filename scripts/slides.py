#!/usr/bin/env python
"""Slides for a lecture from the labs and the demos: `scripts/slides.py -o build/slides`.

One reveal.js page a lab, one of all demos, and an index. A lab is run once, solved; its slides show
the text beat by beat, what learners are to write as the stub that they get, and what the measuring
cells printed and drew. reveal.js and MathJax are fetched by npm once and kept in `build/vendor`;
the pages lie beside copies of them and ask for nothing from outside.
"""

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.source import find_labs, load_lab
from autograder.records import Cell, Lab

ROOT = Path(__file__).parents[1]
TEMPLATE = "slides.html.j2"
REVEAL = (
    *("dist/reveal.js", "dist/reveal.css"),
    *("dist/theme/white.css", "dist/theme/fonts/source-sans-pro"),
)
# package, what of it is needed, and where that goes
PACKAGES = (
    ("reveal.js@5.2.1", (*REVEAL, "plugin/notes", "LICENSE"), "reveal"),
    ("mathjax@3.2.2", ("es5/tex-svg-full.js", "LICENSE"), "mathjax"),
)
BEAT = re.compile(r"\n(?=\*\*(?:Predict|Idea|Measure|Reflect)|\*The real system)")
FOR_READERS = re.compile(r" *\([^()]*\bno reading\b[^()]*\)")  # of cells that no slide shows
GAPS = re.compile(r"(?<=\S) {3,}")
LONGEST = 14  # lines of code that a slide shows beside its output
SHORT = 420  # characters of text that share a slide with the code which follows
SHARP = "%config InlineBackend.figure_formats = ['retina']"  # a wall is larger than a page
CELL_S = 240
DARK = re.compile(r"\(prefers-color-scheme:\s*dark\)")
NEVER = "(max-width: 0)"  # slides are light, whatever the theme of the machine
SHOWN = ("image/svg+xml", "image/png", "text/html", "text/plain")  # widgets have a picture


def vendor(folder: Path) -> Path:
    """Return the folder with what the pages need, fetched by npm where it is not there yet."""
    for package, parts, name in PACKAGES:
        target = folder / name
        if not (target / "LICENSE").is_file():
            _fetch(package, parts, target)
    return folder


def _fetch(package: str, parts: Sequence[str], target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            npm = subprocess.run(
                ["npm", "pack", "--silent", package], cwd=folder, capture_output=True, text=True
            )
        except FileNotFoundError:
            raise SystemExit("slides: npm is missing. Next: sudo apt-get install npm") from None
        if npm.returncode:
            raise SystemExit(f"slides: npm could not fetch {package}: {npm.stderr.strip()[-300:]}")
        shutil.unpack_archive(Path(folder) / npm.stdout.split()[-1], folder)
        for part in parts:
            source, place = Path(folder) / "package" / part, target / part.removeprefix("es5/")
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, place)


def execute(lab: Lab) -> list[dict[str, Any]]:
    """Return the cells of the solved notebook after a run beside its lab."""
    import nbformat
    from nbclient import NotebookClient
    from traitlets.config import Config

    notebook = nbformat.reads(solution_notebook(lab), as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(SHARP))
    resources = {"metadata": {"path": str(lab.directory)}}
    with tempfile.TemporaryDirectory() as folder:  # sockets in it: over TCP the kernel warns
        kernel = {"transport": "ipc", "connection_file": f"{folder}/kernel.json"}
        options = {"timeout": CELL_S, "resources": resources, "coalesce_streams": True}
        NotebookClient(notebook, config=Config(KernelManager=kernel), **options).execute()
    return list(notebook.cells[1:])


def deck(lab: Lab, ran: Sequence[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return the lab as a notebook of slides; `ran` are its cells with outputs, if it was run."""
    notebook = json.loads(learner_notebook(lab))
    cells: list[dict[str, Any]] = []
    for index, (cell, shown) in enumerate(zip(lab.cells, notebook["cells"], strict=True)):
        outputs = ran[index].get("outputs", []) if ran else []
        cells += _slides(cell, "".join(shown["source"]), outputs)
    _join(cells)
    if cells:
        cells[0]["metadata"] = {"slideshow": {"slide_type": "slide"}}
    return _notebook(cells, lab.title)


def _slides(cell: Cell, text: str, outputs: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the slides of one cell: of text a beat each; of code the stub, or what it showed."""
    if cell.kind == "markdown":
        text = FOR_READERS.sub("", text.partition("\n**Answer** (")[0])
        for beat in BEAT.split(text):
            if beat.strip():
                heading = re.match(r"#{1,2} ", beat.lstrip())
                yield _make_cell("markdown", beat.strip(), "slide" if heading else "subslide")
    elif "question" in cell.attributes:
        yield _make_cell("code", text, "subslide")
    elif not {"setup", "check"} & set(cell.tags) and not text.startswith("q."):
        for shown in _by_picture(list(_showable(outputs))):
            slide = _make_cell("code", text, "subslide")
            if any(map(_is_picture, shown)) or len(text.splitlines()) > LONGEST:
                slide["metadata"]["transient"] = {"remove_source": True}
            yield {**slide, "outputs": shown}


def _by_picture(outputs: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the outputs in groups with at most one picture each: one fills a slide."""
    group: list[dict[str, Any]] = []
    for output in outputs:
        if _is_picture(output) and any(map(_is_picture, group)):
            yield group
            group = []
        group.append(output)
    if group:
        yield group


def _is_picture(output: dict[str, Any]) -> bool:
    return any("image/" in kind for kind in output.get("data", ()))


def _join(cells: Sequence[dict[str, Any]]) -> None:
    """Let code share the slide of a short text that leads to it; a prediction stays alone."""
    for before, cell in pairwise(cells):
        text = before["source"]
        is_lead = before["cell_type"] == "markdown" and len(text) <= SHORT
        if is_lead and "**Predict" not in text and cell["cell_type"] == "code":
            cell["metadata"]["slideshow"]["slide_type"] = "-"


def _showable(outputs: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield outputs without what a page cannot show by itself: widgets and errors."""
    for output in outputs:
        if output["output_type"] == "stream" and output["name"] == "stdout":
            yield {**output, "text": _narrow("".join(output["text"]))}
        elif "data" in output:
            data = {kind: output["data"][kind] for kind in SHOWN if kind in output["data"]}
            if "image/svg+xml" in data:
                data["image/svg+xml"] = DARK.sub(NEVER, data["image/svg+xml"])
            if data:
                yield {**output, "data": data, "metadata": {}}


def _narrow(text: str) -> str:
    """Return one line without the gaps that align it in a table, which it is alone in."""
    return text if "\n" in text.strip() else GAPS.sub("  ", text)


def _make_cell(kind: str, text: str, slide: str) -> dict[str, Any]:
    new_cell: dict[str, Any] = {"cell_type": kind, "source": text}
    new_cell["metadata"] = {"slideshow": {"slide_type": slide}}
    return {**new_cell, "outputs": [], "execution_count": None} if kind == "code" else new_cell


def _notebook(cells: list[dict[str, Any]], title: str) -> dict[str, Any]:
    language = {"name": "python", "file_extension": ".py", "pygments_lexer": "ipython3"}
    for number, cell in enumerate(cells):
        cell["id"] = f"slide-{number}"
    about = {"title": title, "language_info": language}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def demo_deck(demos: Sequence[Path], folder: str) -> dict[str, Any]:
    """Return a notebook of slides with one demo each, from its page in `folder`."""
    cells = [_make_cell("markdown", "# Demos\n\nEach works by mouse and by keyboard.", "slide")]
    for page in demos:
        title = html.escape(title_of(page), quote=True)
        frame = f'<iframe src="{folder}/{page.name}" title="{title}" loading="lazy"></iframe>'
        frame += f'<a class="alone" href="{folder}/{page.name}">by itself</a>'
        cells.append(_make_cell("markdown", frame, "slide"))
    return _notebook(cells, "Demos")


def talk_deck(text: str) -> dict[str, Any]:
    """Return a talk as a notebook of slides: each heading of its Markdown begins one.

    What comes after a line `Notes:` is the speaker's.
    """
    cells, title = [], ""
    for slide in re.split(r"(?m)^(?=#{1,2} )", text):
        front, _, notes = slide.partition("\nNotes:")
        if front.strip():
            title = title or front.strip().splitlines()[0].lstrip("# ")
            cells.append(_make_cell("markdown", front.strip(), "slide"))
        if notes.strip():
            cells.append(_make_cell("markdown", notes.strip(), "notes"))
    return _notebook(cells, title)


def title_of(page: Path) -> str:
    """Return the title of an HTML page, or the name of its file."""
    title = re.search(r"<title>(.*?)</title>", page.read_text(encoding="utf-8"), re.S)
    return html.unescape(title[1].strip()) if title else page.stem


def page_of(notebook: dict[str, Any]) -> str:
    """Return the reveal page of a notebook of slides."""
    import nbformat
    from jinja2 import FileSystemLoader
    from nbconvert import SlidesExporter

    exporter = SlidesExporter(
        template_file=TEMPLATE,
        extra_loaders=[FileSystemLoader(Path(__file__).parent)],
        reveal_url_prefix="vendor/reveal",
        reveal_theme="white",  # most others ask for a font from outside
    )
    page, _ = exporter.from_notebook_node(nbformat.from_dict(notebook))
    return str(page)


def index_of(pages: Sequence[tuple[str, str]]) -> str:
    """Return the page that leads to the others, given (file, title) of each."""
    items = "".join(f'<li><a href="{name}">{html.escape(title)}</a></li>' for name, title in pages)
    style = "body{font:18px/1.6 sans-serif;max-width:40em;margin:3em auto;color-scheme:light dark}"
    head = f'<meta charset="utf-8"><title>Slides</title><style>{style}</style>'
    body = f"<h1>Slides</h1><ol>{items}</ol>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def build(
    labs: Sequence[Path], demos: Sequence[Path], out: Path, assets: Path, *, run: bool
) -> None:
    """Write a page a lab, one of demos and the index to `out`; `assets` is the vendor folder."""
    shutil.copytree(assets, out / "vendor", dirs_exist_ok=True)
    pages = []
    for directory in labs:
        lab = load_lab(directory)
        print(f"{lab.name}: {'running' if run else 'text only'}", flush=True)
        page = page_of(deck(lab, execute(lab) if run else None))
        (out / f"{lab.name}.html").write_text(page, encoding="utf-8")
        pages.append((f"{lab.name}.html", lab.title))
    if demos:
        (out / "demos").mkdir(exist_ok=True)
        for demo in demos:
            page = DARK.sub(NEVER, demo.read_text(encoding="utf-8"))
            (out / "demos" / demo.name).write_text(page, encoding="utf-8")
        (out / "demos.html").write_text(page_of(demo_deck(demos, "demos")), encoding="utf-8")
        pages.append(("demos.html", "Demos"))
    (out / "index.html").write_text(index_of(pages), encoding="utf-8")


def show_talk(talk: Path, out: Path) -> int:
    """Write the page of a talk beside what it needs, and the pictures that lie beside it."""
    if not talk.is_file():
        raise SystemExit(f"slides: there is no talk {talk}. Copy labs/talk_template.md.")
    shutil.copytree(vendor(ROOT / "build" / "vendor"), out / "vendor", dirs_exist_ok=True)
    for picture in talk.parent.iterdir():
        if picture.suffix in {".png", ".svg", ".jpg"}:
            shutil.copy(picture, out / picture.name)
    page = out / f"{talk.stem}.html"
    page.write_text(page_of(talk_deck(talk.read_text(encoding="utf-8"))), encoding="utf-8")
    print(f"Open {page}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Build the slides of the labs named, all by default, and of the demos."""
    parser = argparse.ArgumentParser(description="Offline reveal.js slides from labs and demos.")
    parser.add_argument("labs", nargs="*", type=Path, help="directories of labs; default: all")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "build" / "slides")
    parser.add_argument("--talk", type=Path, help="a talk in Markdown, and nothing else")
    parser.add_argument("--no-run", action="store_true", help="text and stubs, no measurements")
    arguments = parser.parse_args(argv)
    if arguments.talk is not None:
        return show_talk(arguments.talk, arguments.out)
    labs = arguments.labs or find_labs(ROOT / "labs")
    demos = sorted((ROOT / "labs" / "demos").glob("*/*.html"))
    assets = vendor(ROOT / "build" / "vendor")
    arguments.out.mkdir(parents=True, exist_ok=True)
    build(labs, demos, arguments.out, assets, run=not arguments.no_run)
    print(f"Open {arguments.out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
