"""A lab on Colab: one cell, one file to upload, and grading that takes no notice of either."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.release import release
from autograder.authoring.source import load_lab
from autograder.cli import main
from autograder.errors import LabError
from autograder.formats.colab import (
    CHECKOUT,
    EXTRA,
    add_colab,
    archive_name,
    build_wheel,
    colab_notebook,
    set_up_text,
)
from autograder.grading.grade import LabGrader
from autograder.grading.slicing import select_needed, statements_of
from autograder.records import Lab, Report

SAMPLE = Path(__file__).parent / "sample_labs" / "scale_and_sum"
SECRETS = ("x * factor", "total += row", "predicted_size = 3", "sum of squares", "SOLUTION",
           "a_negative_factor_changes_the_sign", "secret_length", "-1.5", "rubric")  # fmt: skip

# Stands where pip would: says what it was asked for, and installs an autograder that is empty.
PIP = """
import json, pathlib, sys
here = pathlib.Path(__file__).parents[1]
(here / "asked.json").write_text(json.dumps(sys.argv[1:]))
(here / "autograder.py").touch()
"""
SAYS_WHERE = "\nimport os, autograder\nprint(os.getcwd())\n"


@dataclass(frozen=True)
class Made:
    """A lab that has assets and a style sheet, and its released folder, made for Colab; to read."""

    lab: Lab
    folder: Path
    wheel: Path

    @property
    def archive(self) -> Path:
        return self.folder / archive_name(self.lab)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    top = tmp_path_factory.mktemp("made")
    shutil.copytree(SAMPLE, top / "copied_lab")
    (top / "copied_lab" / "assets").mkdir()
    (top / "copied_lab" / "assets" / "ring.svg").write_text("<svg/>")
    (top / "style.mplstyle").write_text("lines.linewidth: 2")
    wheel = top / "course-1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    lab = load_lab(top / "copied_lab")
    release(lab, top / "out")
    add_colab(lab, top / "out" / lab.name, wheel)
    return Made(lab, top / "out" / lab.name, wheel)


@pytest.fixture
def colab(tmp_path: Path) -> Callable[[str], "subprocess.CompletedProcess[str]"]:
    """Return a function that runs code in an empty folder, with no package but a fake pip."""
    content = tmp_path / "content"
    content.mkdir()
    (tmp_path / "site" / "pip").mkdir(parents=True)
    (tmp_path / "site" / "pip" / "__init__.py").touch()
    (tmp_path / "site" / "pip" / "__main__.py").write_text(PIP)

    def run(code: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-S", "-c", code],
            cwd=content,
            env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_the_archive_holds_what_the_notebook_looks_for_and_no_secret(made: Made) -> None:
    with zipfile.ZipFile(made.archive) as z:
        texts = {name: z.read(name).decode() for name in z.namelist()}
    name = made.lab.name
    assert set(texts) == {
        "course-1.0-py3-none-any.whl", f"{name}/checks.py", f"{name}/lab.json",
        f"{name}/assets/ring.svg", "style.mplstyle",
    }  # fmt: skip
    texts["colab.ipynb"] = (made.folder / "colab.ipynb").read_text()
    assert not [(name, s) for name, text in texts.items() for s in SECRETS if s in text]


def test_what_a_release_writes_without_it_stays_byte_for_byte(made: Made, tmp_path) -> None:
    release(made.lab, tmp_path / "plain")
    plain = tmp_path / "plain" / made.lab.name
    files = [p.relative_to(plain) for p in plain.rglob("*") if p.is_file()]
    assert {str(p) for p in files} >= {"checks.py", "lab.ipynb", "lab.json"}
    assert all((plain / p).read_bytes() == (made.folder / p).read_bytes() for p in files)
    more = {p.name for p in made.folder.iterdir()} - {p.name for p in plain.iterdir()}
    assert more == {"colab.ipynb", f"{made.lab.name}_colab.zip"}


def test_the_notebook_is_the_learners_with_one_cell_in_front(sample_lab: Lab) -> None:
    found = nbformat.reads(colab_notebook(sample_lab), as_version=4)
    nbformat.validate(found)
    plain = nbformat.reads(learner_notebook(sample_lab), as_version=4)
    assert found.cells[1:] == plain.cells
    assert found.cells[0].metadata.tags == ["setup"]
    assert len({c.id for c in found.cells}) == len(found.cells)
    assert colab_notebook(sample_lab) == colab_notebook(load_lab(sample_lab.directory))


def test_two_archives_are_the_same_bytes(made: Made, tmp_path: Path) -> None:
    again = shutil.copytree(made.folder, tmp_path / made.lab.name)
    (again / made.archive.name).unlink()
    add_colab(made.lab, again, made.wheel)
    assert (again / made.archive.name).read_bytes() == made.archive.read_bytes()


def test_the_cell_unpacks_installs_and_moves_into_the_labs_folder(
    made: Made, tmp_path: Path, colab
) -> None:
    content = tmp_path / "content"
    (content / made.archive.name).write_bytes(made.archive.read_bytes())
    cell = set_up_text(made.lab)
    done = colab(cell + SAYS_WHERE)
    assert done.stderr == ""
    assert done.stdout.strip() == str(content / made.lab.name)
    assert (content / made.lab.name / "checks.py").is_file()
    assert (content / made.lab.name / ".." / "style.mplstyle").is_file()
    asked = json.loads((tmp_path / "site" / "asked.json").read_text())
    assert asked == ["install", "-q", "course-1.0-py3-none-any.whl[colab]"]


def test_the_cell_does_nothing_twice(made: Made, tmp_path: Path, colab) -> None:
    content = tmp_path / "content"
    (content / made.archive.name).write_bytes(made.archive.read_bytes())
    cell = set_up_text(made.lab)
    assert colab(cell).returncode == 0
    (content / made.archive.name).unlink()
    (tmp_path / "site" / "asked.json").unlink()
    again = colab(cell + "\nset_up_course()" + SAYS_WHERE)  # as after a restart of the kernel
    assert (again.stderr, again.stdout.strip()) == ("", str(content / made.lab.name))
    assert not (tmp_path / "site" / "asked.json").exists()


@pytest.mark.parametrize("there", [b"", b"PK\x03\x04 the first half"])
def test_an_archive_that_is_missing_or_cut_off_is_asked_for(
    sample_lab: Lab, tmp_path: Path, colab, there: bytes
) -> None:
    if there:
        (tmp_path / "content" / archive_name(sample_lab)).write_bytes(there)
    done = colab(set_up_text(sample_lab))
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert f"{archive_name(sample_lab)} is not in {tmp_path / 'content'}" in said
    assert "Upload it there, then run this cell again." in said


def test_a_colab_notebook_is_graded_as_the_labs_own(sample_lab: Lab, grader: LabGrader) -> None:
    solved = solution_notebook(sample_lab)
    content = json.loads(solved)
    content["cells"].insert(0, json.loads(colab_notebook(sample_lab))["cells"][0])

    def told(report: Report) -> list[object]:
        return [(r.name, r.outcome, r.score) for r in report.results] + [report.notes]

    for plain, colab in (
        (solved, json.dumps(content)),
        (learner_notebook(sample_lab), colab_notebook(sample_lab)),
    ):
        assert told(grader.grade(colab.encode())) == told(grader.grade(plain.encode()))
    assert grader.grade(json.dumps(content).encode()).score > 0


def test_nothing_of_the_cell_runs_in_grading_even_for_names_that_it_uses(sample_lab: Lab) -> None:
    answer = (
        "import os, sys, zipfile\ndef scale(x, lab):\n    return os.sep, sys, zipfile, lab, odd"
    )
    found = select_needed(
        statements_of([("code", set_up_text(sample_lab)), ("code", answer)]), ["scale"]
    )
    assert {statement.cell for statement in found} == {2}


def test_the_cell_is_short_and_asks_for_an_extra_of_the_project(sample_lab: Lab) -> None:
    assert len(set_up_text(sample_lab).splitlines()) <= 25
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert f"{project['name']}[{EXTRA}]" in extras["lab"]
    own = ("ipykernel", "ipywidgets", "jupyter", "notebook", "torch", "tornado")
    assert not [need for need in extras[EXTRA] if need.startswith(own)]  # Colab's stay


def test_a_package_without_its_checkout_cannot_be_made_a_wheel(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"has no pyproject\.toml.*pip install -e"):
        build_wheel(tmp_path / "build", checkout=tmp_path)


def test_what_pip_says_is_handed_on_where_it_cannot_build(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "course").mkdir(parents=True)
    (checkout / "course" / "__init__.py").touch()
    (checkout / "pyproject.toml").write_text("[build-system\n")
    with pytest.raises(LabError, match=r"cannot build .*\n(.*\n)+Try by hand: pip wheel"):
        build_wheel(tmp_path / "build", checkout=checkout)
    assert sorted(p.name for p in checkout.iterdir()) == ["course", "pyproject.toml"]


@pytest.mark.parametrize("other", ["--in-place", "--check"])
def test_the_option_needs_a_directory_to_write_to(sample_directory, capsys, other: str) -> None:
    assert main(["release", str(sample_directory), other, "--colab"]) == 2
    assert "--colab needs -o" in capsys.readouterr().err
