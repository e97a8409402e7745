"""The wheel alone, without a checkout: one line, and the course is open."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.authoring.source import find_labs
from autograder.formats.colab import build_wheel
from scripts import install

ROOT = Path(__file__).parents[1]
SOURCES = ("minitorch", "ddp_lab", "autograder", "lessons", "labs")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in")
CHECKED = """
import json, minitorch, autograder
from autograder import lab
q = lab("autodiff")
card = q.check_question(q.practice.lab.questions[0])
print(json.dumps([autograder.__file__, minitorch.__file__, q.practice.lab.title, str(card)]))
"""

WITHOUT_CHECKOUT = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, offline, from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in SOURCES:
        shutil.copytree(
            ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "answers")
        )
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    options = ["--no-deps", "--no-build-isolation", "-q", "-w", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(source)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the wheel; its dependencies are those of ours."""
    folder = tmp_path_factory.mktemp("fresh") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.check_output([python, "-c", purelib], text=True).strip())
    install = ["install", "-q", "--no-deps", "--no-compile", "--target", str(site), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


@pytest.fixture
def started(python: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Run `autograder start` in an empty folder; give the address of JupyterLab."""
    program = "from autograder.cli import main; raise SystemExit(main())"
    command = [str(python), "-u", "-c", program, "start", "--no-browser", "--work", "work"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=WITHOUT_CHECKOUT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            said = ""
            for line in process.stdout:
                said += line
                if found := re.search(r"http://\S+/lab\S*", line):
                    yield found[0], tmp_path / "work"
                    break
            else:
                pytest.fail(f"start ended: {said}")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=100)


@pytest.mark.slow
def test_the_wheel_opens_the_course_from_an_empty_folder(
    python: Path, started: tuple[str, Path]
) -> None:
    address, work = started
    with urllib.request.urlopen(address, timeout=100) as answer:
        assert answer.status == 200
    names = {path.name for path in find_labs(ROOT / "labs")}
    assert names <= {path.name for path in work.iterdir()}
    lab = next(work.glob("*_autodiff"))
    command = [python, "-c", CHECKED]
    checked = subprocess.run(
        command, cwd=lab, env=WITHOUT_CHECKOUT, capture_output=True, text=True, timeout=200
    )
    assert checked.returncode == 0, checked.stderr
    own, other, title, card = json.loads(checked.stdout.splitlines()[-1])
    assert {Path(own).parents[1], Path(other).parents[1]} == {Path(own).parents[1]}
    assert str(python.parents[1]) in own and "Autodiff" in title and card
    assert "### BEGIN SOLUTION" not in (lab / "lab.ipynb").read_text()


def test_the_wheel_has_the_labs_and_demos_and_the_one_for_colab_has_none(
    wheel: Path, tmp_path: Path
) -> None:
    import zipfile

    def labs_in(path: Path) -> set[str]:
        names = zipfile.ZipFile(path).namelist()
        return {name.split("/")[2] for name in names if name.startswith("autograder/course/")}

    assert labs_in(wheel) >= {path.name for path in (ROOT / "labs").iterdir()} - {"__pycache__"}
    assert labs_in(build_wheel(tmp_path)) == set()


WITHOUT_POSIX = """
import sys
from importlib.machinery import PathFinder

class Rest(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in {"fcntl", "resource", "pwd", "grp", "termios"}:
            return PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Rest if finder is PathFinder else finder for finder in sys.meta_path]
import autograder.service.running.start, autograder.service.running.jupyter
import autograder.learner.notebook_ui, autograder.learner.panel, autograder.learner.practice
import ddp_lab, minitorch.compile, minitorch.graph, minitorch.nn, minitorch.show
import lessons.timing
"""


def test_what_a_learner_imports_needs_nothing_that_windows_lacks() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_POSIX], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("of_whom", ["dev container", "binder"])
def test_a_dev_container_and_binder_install_as_the_readme_says_and_no_cuda(
    of_whom: str, tmp_path: Path
) -> None:
    assert "pip install '.[learn]'" in (ROOT / "README.md").read_text()
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    command = {"dev container": container["postCreateCommand"], "binder": "binder/postBuild"}
    (tmp_path / "pip").write_text('#!/bin/sh\necho "$@ from $PIP_EXTRA_INDEX_URL"\n')
    (tmp_path / "pip").chmod(0o755)
    plain = {k: v for k, v in os.environ.items() if k != "TORCH_INDEX"}
    plain["PATH"] = f"{tmp_path}:{plain['PATH']}"
    for index in (None, "https://example.org/cu128", ""):
        chosen = {} if index is None else {"TORCH_INDEX": index}
        done = subprocess.run(
            ["sh", "-c", command[of_whom]], cwd=ROOT, env=plain | chosen, stdout=subprocess.PIPE
        )
        expected = install.CPU_INDEX if index is None else index
        assert done.stdout.decode() == f"install .[learn] from {expected}\n"
