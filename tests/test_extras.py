"""An extra that is not installed is named, with the next step, wherever it is needed."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import autograder.extras
import ddp_lab.extras
import minitorch.extras
from autograder.sandbox import doctor

ROOT = Path(__file__).parent.parent
HELP = "Help: when_it_does_not_work.html#something-is-not-installed"
WITHOUT = """
import sys

from importlib.machinery import PathFinder

class Rest(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in {blocked!r}.split():
            return PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Rest if finder is PathFinder else finder for finder in sys.meta_path]
{program}
"""
GRADE = "distributed fastapi h11 jinja2 multipart nh3 rich sqlalchemy starlette uvicorn"


def without(blocked: str, program: str, folder: Path) -> tuple[int, str]:
    """Return the status and the errors of a Python that lacks these modules."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(blocked=blocked, program=program)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", ["start --no-browser", "serve --data d"])
def test_a_command_without_its_extra_names_it_in_one_line(command: str, tmp_path: Path) -> None:
    program = f"from autograder.cli import main; sys.exit(main({command.split()!r}))"
    status, said = without(GRADE, program, tmp_path)
    assert status == 2
    start = f'autograder {command.split()[0]}: the extra "grade" is not installed: No module named '
    assert said.startswith(start)
    assert said.count("\n") == 1
    assert "Next: make setup, or .venv/bin/pip install -e '.[grade]'" in said


HUB = "--jupyterhub http://hub --client-id c --client-secret-file {lti}"


@pytest.mark.parametrize("option", [HUB, "--lti {lti}"], ids=["hub", "lti"])
@pytest.mark.parametrize("missing", ["authlib", "joserfc"])
def test_a_server_that_cannot_sign_in_does_not_start(
    option: str, missing: str, tmp_path: Path
) -> None:
    urls = "".join(f'{name}_url = "https://x/"\n' for name in ("authorization", "token", "jwks"))
    (tmp_path / "lti").write_text(
        f'[a]\nissuer = "i"\nclient_id = "c"\ndeployments = ["1"]\n{urls}'
    )
    command = f"serve --data d --port 0 --unsandboxed --labs {ROOT / 'labs'} {option}"
    arguments = command.format(lti=tmp_path / "lti").split()
    program = f"from autograder.cli import main; sys.exit(main({arguments!r}))"
    status, said = without(missing, program, tmp_path)
    assert status == 2 and 'the extra "signin" is not installed' in said


def test_a_module_of_no_extra_is_not_taken_for_one() -> None:
    error = ModuleNotFoundError("No module named 'autograder.x'", name="autograder.x")
    assert autograder.extras.explain_import_error("autograder start", error) is None


@pytest.mark.parametrize(
    ("blocked", "program", "extra"),
    [
        ("sklearn", "from minitorch.data import digits; digits()", "lab"),
        ("llvmlite", "from minitorch.compile import Function; Function('')", "compile"),
        ("zmq", "import minitorch.serve as s; s.Server().__aenter__().send(None)", "serve"),
        ("cloudpickle", "import ddp_lab; ddp_lab.launch(print, 2)", "lab"),
        ("torch", "import ddp_lab; ddp_lab.launch(print, 2, transport='gloo')", "torch"),
    ],
)
def test_a_function_without_its_extra_names_it(
    blocked: str, program: str, extra: str, tmp_path: Path
) -> None:
    status, said = without(blocked, program, tmp_path)
    assert status == 1
    assert f'the extra "{extra}" is not installed: No module named \'{blocked}' in said


@pytest.mark.parametrize("package", [autograder, ddp_lab, minitorch])
def test_a_package_has_the_version_of_its_distribution(package: Any) -> None:
    assert package.__version__ == version("mlsys-labs")
    assert not hasattr(package, "__versions__")


@pytest.mark.parametrize("package", [autograder, ddp_lab, minitorch])
def test_a_wheel_names_its_distribution_and_the_python_it_is_in(
    package: object, tmp_path: Path
) -> None:
    source = Path(package.extras.__file__)  # type: ignore[attr-defined]
    installed = tmp_path / "site" / "package" / "extras.py"
    installed.parent.mkdir(parents=True)
    installed.write_text(source.read_text())
    program = "from package import extras; print(extras.describe_missing('x', 'lab', 'y'))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "site",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    step = f"{sys.executable} -m pip install 'mlsys-labs[lab]'"
    assert done.stdout == f'x: the extra "lab" is not installed: y. Next: {step}. {HELP}\n'


def test_the_container_of_the_course_server_has_the_rights_that_the_sandbox_takes() -> None:
    """With one of them missing the server answers, and its grading is paused."""
    compose = (ROOT / "deploy" / "compose.yaml").read_text()
    listed = re.search(r"^    security_opt:\n((?:      - \S+\n)+)", compose, re.MULTILINE)
    assert listed
    options = [line.removeprefix("      - ") for line in listed[1].splitlines()]
    assert options == ["seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"]
    by_hand = " ".join(f"--security-opt {option}" for option in options)
    pages = [ROOT / "docs" / f"{name}.md" for name in ("running_a_course", "when_it_does_not_work")]
    for advice in (doctor.CONTAINER, *(page.read_text() for page in pages)):
        assert by_hand in advice


def test_the_image_of_the_course_server_has_what_checks_of_labs_import() -> None:
    """A check that misses a module fails an answer that is right."""
    image = re.search(r'"\.\[([a-z,]+)\]"', (ROOT / "deploy" / "Dockerfile").read_text())
    assert image
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in image[1].split(","):
        wanted += project["optional-dependencies"][extra]
    installed = {re.split(r"[^\w-]", line)[0] for line in wanted}
    own = {"autograder", "ddp_lab", "lessons", "minitorch", *sys.stdlib_module_names}
    for path in (ROOT / "labs").glob("*/checks.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
        names |= {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom)}
        assert {name.partition(".")[0] for name in names} - own <= installed, path
