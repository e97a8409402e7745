#!/usr/bin/env python
"""The site: `scripts/site.py -o build/site`, offline, every warning an error.

Beside the guides of `docs/` it has a page for each lab (the learner's notebook with what the solved
one printed and drew), the lecture demos, the results of measurements, and the reference of all
public names. `--without-outputs` runs no lab. Every link to a file of ours is checked.
"""

import argparse
import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from slides import execute

from autograder.authoring.notebook import learner_notebook
from autograder.authoring.source import find_labs, load_lab
from autograder.records import Lab

ROOT = Path(__file__).parents[1]
WIDGET = "widget-view+json"
LABS, DEMOS = ROOT / "labs", ROOT / "labs" / "demos"
# A page of the reference: its modules, whose public names it lists.
REFERENCE = {
    "Tensors and operators": ("minitorch",),
    "Layers": ("minitorch.nn", "minitorch.nn.functional"),
    "Training": ("minitorch.optim", "minitorch.data"),
    "Graphs": ("minitorch.graph", "minitorch.graph.nn", "minitorch.graph.train"),
    "Kernels": ("minitorch.compile",),
    "Serving": ("minitorch.serve",),
    "Messages and collectives": ("ddp_lab", "ddp_lab.collectives"),
    "Parallel training": ("ddp_lab.parallel",),
    "Costs and simulation": ("ddp_lab.costs", "ddp_lab.simulate"),
    "Checks": ("autograder.checks",),
}
DEMO_ROW = re.compile(r"^\| \[(.+?)\]\(labs/demos/(\w+)\) \| (\d\d) \| (.+) \|$", re.MULTILINE)
SOURCE_LINK = re.compile(r"\]\(\.\./([\w/]+\.py)\)")


def main(argv: Sequence[str] | None = None) -> int:
    """Build the site and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--without-outputs", action="store_true", help="run no lab")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "docs"
        write_pages(source, run=not options.without_outputs)
        command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
        command += ["-t", "quick"] if options.without_outputs else []  # see docs/conf.py
        built = subprocess.run([*command, str(source), str(options.out)], cwd=ROOT)
    if built.returncode:
        return built.returncode
    mend_ways_back(options.out)
    broken = list(broken_links(options.out))
    print("\n".join(broken) or f"The site is in {options.out}/index.html.")
    return 1 if broken else 0


def write_pages(source: Path, *, run: bool) -> None:
    """Write into `source` all that Sphinx reads."""
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("_build"))
    for file in SOURCE_LINK.findall((source / "reading_path.md").read_text()):
        (source.parent / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, source.parent / file)
    (source / "labs").mkdir()
    for path in find_labs(LABS):
        lab = load_lab(path)
        (source / "labs" / f"{lab.name}.ipynb").write_text(json.dumps(lab_page(lab, run=run)))
    (source / "labs.md").write_text(labs_page())
    (source / "demos.md").write_text(demos_page(source / "files" / "demos"))
    (source / "reference.md").write_text(reference_page(source))
    known = (source / "index.md").read_text()
    others = [path.stem for path in sorted(source.glob("*.md")) if f"\n{path.stem}\n" not in known]
    results = [f"results/{path.stem}" for path in sorted((source / "results").glob("*.md"))]
    pages = [page for page in others if page != "index"] + results
    known = known.replace("OTHERS\n", "".join(page + "\n" for page in pages))
    (source / "index.md").write_text(known)


def lab_page(lab: Lab, *, run: bool) -> dict[str, Any]:
    """Return the learner's notebook with the outputs of the solved one, where that was run."""
    notebook: dict[str, Any] = json.loads(learner_notebook(lab))
    cells = execute(lab) if run else ()
    for page_cell, cell in zip(notebook["cells"], cells, strict=False):
        if page_cell["cell_type"] == "code":
            page_cell["outputs"] = list(_without_widgets(cell.get("outputs", ())))
    return notebook


def _without_widgets(outputs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield outputs as a page without a kernel can show them: of a widget its picture."""
    for output in outputs:
        data = {
            k: v for k, v in output.get("data", {}).items() if not k.endswith("widget-view+json")
        }
        if "data" not in output:
            yield output
        elif data:
            yield {**output, "data": data}


def labs_page() -> str:
    """Return the way through the labs, with links to their pages here."""
    text = (LABS / "README.md").read_text()
    names = [path.name for path in find_labs(LABS)]
    text = re.sub(r"\]\((\w+)/lab\.ipynb\)", r"](labs/\1.ipynb)", text)
    tree = "\n".join(f"labs/{name}" for name in names)
    return f"{text}\n```{{toctree}}\n:hidden:\n{tree}\n```\n"


def demos_page(files: Path) -> str:
    """Return the page of the demos, as README lists them; their own pages go into `files`."""
    files.mkdir(parents=True)
    labs = {path.name[:2]: path.name for path in find_labs(LABS)}
    parts = [
        "# Lecture demos\n",
        "Each is a page of its own that needs no kernel and no network.\n",
    ]
    for name, folder, number, shows in DEMO_ROW.findall((ROOT / "README.md").read_text()):
        shutil.copy(DEMOS / folder / f"{folder}.html", files)
        title, page = name[0].upper() + name[1:], f"demos/{folder}.html"
        parts.append(
            f"## {title}\n\n[Lab {number}](labs/{labs[number]}): {shows}. "
            f'<a href="{page}">Alone on a page</a>\n\n'
            f'<iframe class="demo" loading="lazy" title="{name}" src="{page}"></iframe>\n'
        )
    return "\n".join(parts)


def reference_page(source: Path) -> str:
    """Write a page for each part of the reference; return the one that lists them."""
    (source / "reference").mkdir()
    pages = []
    for title, modules in REFERENCE.items():
        found = [module for module in map(_module, modules) if module is not None]
        if found:
            name = title.lower().replace(" ", "_")
            parts = [f"# {title}\n", *(text for module in found for text in _names(module))]
            (source / "reference" / f"{name}.md").write_text("\n".join(parts))
            pages.append(f"reference/{name}")
    tree = "\n".join(pages)
    return f"# Reference\n\n```{{toctree}}\n{tree}\n```\n"


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def _names(module: ModuleType) -> Iterator[str]:
    """Yield the text on one module: what it is, and its public names."""
    name = module.__name__
    yield f"## {name}\n\n```{{eval-rst}}\n.. module:: {name}\n   :no-index:\n```\n"
    yield f"{(inspect.getdoc(module) or '').partition(chr(10) * 2)[0]}\n"
    public = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    for each in sorted(public, key=str.lower):
        thing = getattr(module, each)
        kind = "autoclass" if inspect.isclass(thing) else "autofunction"
        ours = getattr(thing, "__module__", "") or ""
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and ours.startswith(
            ("minitorch", "ddp_lab", "autograder")
        ):
            yield f"```{{eval-rst}}\n.. {kind}:: {name}.{each}\n```\n"


class _Links(HTMLParser):
    """The links of a page, and the names that links may point to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if value and key in ("href", "src") and tag in ("a", "img", "iframe", "link", "script"):
                self.links.append(value)
            elif value and key in ("id", "name"):
                self.names.add(value)


def mend_ways_back(site: Path) -> None:
    """Point each way back from a source to where the reference has the name.

    Sphinx takes the reference to list a name under the last module that handed it on.
    """
    names: dict[Path, set[str]] = {}
    for page in sorted(site.glob("_modules/**/*.html")):

        def mend(link: re.Match[str], page: Path = page) -> str:
            target = (page.parent / link["page"]).resolve()
            if target not in names:
                names[target] = _parse(target).names
            known, name = names[target], link["name"]
            ending = f".{name.rpartition('.')[2]}"
            places = [name] if name in known else [n for n in sorted(known) if n.endswith(ending)]
            return f'{link["head"]}{link["page"]}#{places[0]}"' if places else link["head"] + '#"'

        page.write_text(_WAY_BACK.sub(mend, page.read_text(encoding="utf-8")), encoding="utf-8")


_WAY_BACK = re.compile(
    r'(?P<head><a class="viewcode-back" href=")(?P<page>[^"#]+)#(?P<name>[^"]+)"'
)


def _parse(page: Path) -> _Links:
    links = _Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def broken_links(site: Path) -> Iterator[str]:
    """Yield what is wrong with the links of a site to its own files and places in them."""
    pages = {path: _parse(path) for path in site.rglob("*.html")}
    for path, links in pages.items():
        if "demos" in path.relative_to(site).parts[:1]:
            continue
        for link in links.links:
            where = urlsplit(link)
            if where.scheme or where.netloc:
                continue
            target = (path.parent / unquote(where.path)).resolve() if where.path else path
            if not target.exists():
                yield f"{path.relative_to(site)}: {link} is not there"
            elif _is_missing(where.fragment, pages.get(target)):
                yield f"{path.relative_to(site)}: {link}: no such place in it"


def _is_missing(place: str, page: _Links | None) -> bool:
    return bool(place) and page is not None and unquote(place) not in page.names


if __name__ == "__main__":
    sys.exit(main())
