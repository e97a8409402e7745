"""A released lab made ready for Colab: a notebook with one set-up cell, and one file to upload.

The archive holds what the notebook looks for, as it looks for it (the lab's folder, and the style
sheet above it), and the course as a wheel. The cell unpacks it beside the notebook, installs the
wheel with its extra `colab`, and moves into the lab's folder. Colab brings NumPy and torch.
Pictures stand in the notebook itself, each as a data URI in its path's place: the text is shown
before anything is unpacked.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from autograder.authoring.manifest import MANIFEST
from autograder.authoring.notebook import as_dict, as_text, cell_id, learner_notebook
from autograder.authoring.release import ASSETS, SHARED
from autograder.errors import LabError
from autograder.grading.grade import CHECKS
from autograder.records import Lab

NOTEBOOK = "colab.ipynb"
CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = "pyproject.toml"
EXTRA = "colab"  # not "learn": that replaces the running kernel, ipywidgets and torch of Colab
SETUPTOOLS = 77  # the oldest that reads pyproject.toml as this project writes it
OLDEST = (1980, 1, 1, 0, 0, 0)  # the first date that an archive can hold: equal bytes every time
OLDEST_S = "315532800"  # the same, in seconds

_SET_UP = '''\
# On Colab: run this cell; where it asks for a file, choose {archive}.
def set_up_course(lab={lab!r}, archive={archive!r}):
    """Unpack and install what this notebook needs, where it is not there yet."""
    import importlib.util, os, subprocess, sys, zipfile

    installed = importlib.util.find_spec("autograder") is not None
    if installed and os.path.exists("lab.json"):
        return
    if not installed or not os.path.exists(f"{{lab}}/lab.json"):
        if "COLAB_RELEASE_TAG" in os.environ and not os.path.exists(archive):
            importlib.import_module("google.colab.files").upload()
        if not zipfile.is_zipfile(archive):
            missing = f"{{archive}} is not in {{os.getcwd()}}, or not all of it yet."
            raise FileNotFoundError(f"{{missing}} Upload it there, then run this cell again.")
        with zipfile.ZipFile(archive) as packed:
            packed.extractall()
            wheel = next(name for name in packed.namelist() if name.endswith(".whl"))
        if not installed:
            pip_install = [sys.executable, "-m", "pip", "install", "-q"]
            subprocess.run([*pip_install, f"{{wheel}}[{extra}]"], check=True)
            importlib.invalidate_caches()
    os.chdir(lab)

set_up_course()
'''


def build_wheel(directory: Path, checkout: Path = CHECKOUT) -> Path:
    """Return the course's wheel, built by pip in `directory` from the sources in `checkout`.

    Builds from a copy, so that the checkout stays as it is and nothing stale gets in.

    Raises:
        LabError: the package was not installed from a checkout, or pip cannot build it.
    """
    if not (checkout / PROJECT).is_file():
        problem = f"release --colab: {checkout} has no {PROJECT}, so no wheel can be built of it"
        raise LabError(f"{problem}. Install from a checkout: pip install -e CHECKOUT.")
    source = directory / "source"
    _copy_sources(checkout, source)
    options = ["--no-deps", "-q", "-w", str(directory)]
    if _has_setuptools():
        options.append("--no-build-isolation")  # what is here builds it, and nothing is fetched
    command = [sys.executable, "-m", "pip", "wheel", *options, str(source)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": OLDEST_S}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wheels = sorted(directory.glob("*.whl"))
    if done.returncode or not wheels:
        output = (done.stderr or done.stdout).strip() or "nothing"
        problem = f"release --colab: pip cannot build the course's wheel: it says:\n{output}\n"
        raise LabError(f"{problem}Try by hand: pip wheel --no-deps {checkout}")
    return wheels[0]


def _has_setuptools() -> bool:
    try:
        return int(version("setuptools").partition(".")[0]) >= SETUPTOOLS
    except PackageNotFoundError:
        return False


def add_colab(lab: Lab, target: Path, wheel: Path) -> list[Path]:
    """Write colab.ipynb and `<lab>_colab.zip` to the released folder `target`; return both."""
    notebook, archive = target / NOTEBOOK, target / archive_name(lab)
    notebook.write_text(colab_notebook(lab), encoding="utf-8")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, path in _contents(lab, target, wheel):
            entry = zipfile.ZipInfo(name, OLDEST)
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return [notebook, archive]


def archive_name(lab: Lab) -> str:
    """Return what the file to upload is called."""
    return f"{lab.name}_colab.zip"


def colab_notebook(lab: Lab) -> str:
    """Return the learner's notebook with the set-up cell in front, as text.

    Raises:
        LabError: a picture that its text shows is missing.
    """
    content = for_colab(json.loads(learner_notebook(lab)), lab)
    return as_text(content)


def for_colab(content: dict[str, Any], lab: Lab) -> dict[str, Any]:
    """Return one of the lab's notebooks with the set-up cell in front and its pictures inside."""
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            text = embed("".join(cell["source"]), lab.directory)
            cell["source"] = text.splitlines(keepends=True)
    identity, metadata = cell_id(lab, "colab_set_up"), {"tags": ["setup"]}
    set_up = as_dict("code", identity, set_up_text(lab), metadata)
    return {**content, "cells": [set_up, *content["cells"]]}


def set_up_text(lab: Lab) -> str:
    """Return the set-up cell's code. Its imports stay in its function: no answer reads them."""
    text = _SET_UP.format(archive=archive_name(lab), lab=lab.name, extra=EXTRA)
    return text.rstrip("\n")


def _contents(lab: Lab, target: Path, wheel: Path) -> Iterator[tuple[str, Path]]:
    """Yield each file's name in the archive and where it lies now."""
    yield wheel.name, wheel
    yield from ((f"{lab.name}/{name}", target / name) for name in (CHECKS, MANIFEST))
    for path in sorted(p for p in (lab.directory / ASSETS).rglob("*") if p.is_file()):
        yield f"{lab.name}/{path.relative_to(lab.directory).as_posix()}", path
    for path in sorted(lab.directory.resolve().parent.glob(SHARED)):
        yield path.name, path


def _copy_sources(checkout: Path, source: Path) -> None:
    """Copy the packages and the files beside them that describe the project."""
    source.mkdir(parents=True)
    for path in checkout.iterdir():
        if (path / "__init__.py").is_file():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, source / path.name, ignore=ignored)
        elif path.name in (PROJECT, "README.md", "LICENSE"):
            shutil.copy(path, source / path.name)


KINDS = {
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}
LIMIT_BYTES = 2 << 20  # Colab refuses notebooks of 20 MB

_IMAGE = re.compile(
    r"""(?P<before>!\[[^\]]*\]\(\s*<?|<img\b[^>]*?\bsrc\s*=\s*["'])"""
    r"""(?P<path>[^\s"'<>()]+)"""
)
_ELSEWHERE = re.compile(r"[a-zA-Z][\w+.-]*:|//|/|#")


def embed(text: str, directory: Path) -> str:
    """Return Markdown with every picture that lies in the lab's `directory` inside it.

    Pictures elsewhere (a URL, an attachment) stay as they are.

    Raises:
        LabError: a picture is missing, outside the lab, of a kind that no page shows, or too large.
    """

    def place(match: re.Match[str]) -> str:
        path = match["path"]
        if _ELSEWHERE.match(path):
            return match[0]
        return match["before"] + data_uri(_inside(path, directory))

    return _IMAGE.sub(place, text)


def data_uri(path: Path) -> str:
    """Return a picture as the text that shows it.

    Raises:
        LabError: it is of a kind that no page shows, or too large.
    """
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        expected = f"expected one of {', '.join(KINDS)}"
        raise LabError(f"picture {path.name}: got {path.suffix!r}, {expected}. Save it as such.")
    data = path.read_bytes()
    if len(data) > LIMIT_BYTES:
        size = f"got {len(data)} bytes, expected at most {LIMIT_BYTES}"
        raise LabError(f"picture {path.name}: too large for a notebook: {size}. Make it smaller.")
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _inside(path: str, directory: Path) -> Path:
    whole = (directory / path).resolve()
    if not whole.is_relative_to(directory.resolve()) or not whole.is_file():
        problem = f"got {path!r}, expected a file in {directory}"
        raise LabError(f"picture: there is none of that name: {problem}. Check the text's path.")
    return whole
