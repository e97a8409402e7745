"""The set-up: which build of PyTorch is taken, what is said beforehand, when all is made anew."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts import install

SCRIPTS = Path(__file__).parent.parent / "scripts"
NOBODY = "http://127.0.0.1:9/simple"
TORCH = ["torch==99.1"]


def index_of(folder: Path, *versions: str, name: str = "torch") -> str:
    """Return the address of an index that has empty wheels of torch, or of another package."""
    (folder / name).mkdir(parents=True)
    links = []
    for version in versions:
        info, file = f"{name}-{version}.dist-info", f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(folder / name / file, "w") as wheel:
            about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            about += "Requires-Dist: needed>=1\n" if name == "torch" else ""
            wheel.writestr(f"{info}/METADATA", about)
            tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            wheel.writestr(f"{info}/WHEEL", tags)
            wheel.writestr(f"{info}/RECORD", "")
        links.append(f'<a href="{file.replace("+", "%2B")}">{file}</a>')
    (folder / name / "index.html").write_text("<!DOCTYPE html>" + "".join(links))
    return folder.as_uri()


@pytest.fixture
def pip(tmp_path: Path) -> Any:
    """A pip that installs into an environment of its own."""
    venv.create(tmp_path / "env", with_pip=False)
    found = importlib.util.find_spec("pip")
    assert found is not None and found.origin is not None
    runner = Path(found.origin).with_name("__pip-runner__.py")  # what `pip --python` starts, too
    command = (str(tmp_path / "env" / "bin" / "python"), str(runner))
    return install.Pip(command, tmp_path / "pip.log")


def install_torch(pip: Any, index: str | None, **options: Any) -> None:
    if build := install.torch_build(pip, TORCH, index, **options):
        build.install(pip)


def installed(pip: Any) -> list[str]:
    done = subprocess.run([*pip.command, "freeze"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_without_a_device_the_cpu_build_of_torchs_own_index_is_installed(
    pip: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cpu = index_of(tmp_path / "cpu", "99.1+cpu", "99.1")
    install_torch(pip, None, has_device=False, cpu_index=cpu)
    assert installed(pip) == ["torch==99.1+cpu"]
    assert "no CUDA device, so torch==99.1+cpu: 0 MB to load" in capsys.readouterr().out


def test_an_index_that_does_not_answer_leaves_the_build_to_pip(
    pip: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    install_torch(pip, None, has_device=False, cpu_index=NOBODY)
    assert installed(pip) == []
    assert f"{NOBODY} does not answer" in capsys.readouterr().out


def test_with_a_device_the_cpu_builds_are_not_asked_for(pip: Any, tmp_path: Path) -> None:
    cpu = index_of(tmp_path / "cpu", "99.1+cpu")
    install_torch(pip, None, has_device=True, cpu_index=cpu)
    assert installed(pip) == []


def test_an_index_that_was_asked_for_wins_over_what_is_installed(pip: Any, tmp_path: Path) -> None:
    cpu = index_of(tmp_path / "cpu", "99.1+cpu")
    install_torch(pip, None, has_device=False, cpu_index=cpu)
    own = index_of(tmp_path / "own", "99.1+cu130")
    install_torch(pip, own, has_device=False, cpu_index=cpu)
    assert installed(pip) == ["torch==99.1+cu130"]


def test_an_index_that_was_asked_for_and_has_no_torch_is_an_error(pip: Any) -> None:
    with pytest.raises(install.InstallError, match=r"No matching distribution found for torch"):
        install_torch(pip, NOBODY, has_device=False)


def test_an_index_asked_for_as_empty_is_pips_own(
    pip: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index_of(tmp_path / "own", "99.1"))
    cpu = index_of(tmp_path / "cpu", "99.1+cpu")
    install_torch(pip, "", has_device=False, cpu_index=cpu)
    assert installed(pip) == ["torch==99.1"]


def test_what_is_planned_is_installed_without_asking_the_index_again(
    pip: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("needed", "other"):
        index_of(tmp_path / "own", "1.2", name=name)
    monkeypatch.setenv("PIP_INDEX_URL", index_of(tmp_path / "own", "99.1"))
    files = pip.plan(*TORCH, "other")
    assert all("#sha256=" in file.url for file in files)
    monkeypatch.setenv("PIP_INDEX_URL", NOBODY)
    pip.install_files(files)
    assert sorted(installed(pip)) == ["needed==1.2", "other==1.2", "torch==99.1"]


def test_what_a_build_of_torch_requires_is_known_before_it_is_installed(
    pip: Any, tmp_path: Path
) -> None:
    cpu = index_of(tmp_path / "cpu", "99.1+cpu")
    build = install.torch_build(pip, TORCH, None, has_device=False, cpu_index=cpu)
    assert (build.file.pin, build.file.needs) == ("torch==99.1+cpu", ("needed>=1",))
    assert installed(pip) == []


def test_a_file_that_is_not_to_be_had_is_looked_for_by_its_version(
    pip: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index_of(tmp_path / "own", "99.1"))
    lost = (tmp_path / "torch-99.1-py3-none-any.whl").as_uri()
    pip.install_files([install.File("torch", "99.1", lost)])
    assert installed(pip) == ["torch==99.1"]


def test_modules_are_compiled_those_that_come_meanwhile_too(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    texts = {"first.py": "x = 1", "for_another_python.py": "print 1", "tests/left_out.py": ""}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    with install.compile_beside(tmp_path):
        (tmp_path / "later.py").write_text("y = 2")
    found = {path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")}
    assert found == {"first", "later"}


def test_a_package_is_compiled_while_others_come_but_not_before_it_is_whole(tmp_path: Path) -> None:
    def compiled() -> set[str]:
        return {path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")}

    with install.compile_beside(tmp_path):
        for name, is_whole in (("half", False), ("whole", True)):
            (tmp_path / f"{name}.py").write_text("x = 1")
            (info := tmp_path / f"{name}-1.dist-info").mkdir()
            (info / "RECORD").write_text(f"{name}.py,,\n{name}-1.dist-info/RECORD,,\n")
            if is_whole:
                (info / "INSTALLER").write_text("pip")
        while not compiled():
            time.sleep(0.05)
        assert compiled() == {"whole"}
    assert compiled() == {"half", "whole"}


def test_how_much_is_to_be_loaded_is_told_as_far_as_it_is_known() -> None:
    assert install.describe([5_800_000_000, 1]) == "5.8 GB to load"
    assert install.describe([2_000_000, None]) == "2 MB to load, and 1 more of unknown size"
    assert install.describe([None]) == "of unknown size"
    assert install.sizes(["file:///nowhere", f"{NOBODY}/x"]) == [0, None]


def test_the_extras_of_all_are_installed_but_not_the_project_by_its_name() -> None:
    project = {
        "name": "ours",
        "dependencies": ["a>=1"],
        "optional-dependencies": {"x": ["b"], "heavy": ["c"], "all": ["ours[x]"]},
    }
    assert install.requirements(project) == ["a>=1", "b"]
    assert install.requirements(project, ["x"]) == ["a>=1"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose installation does nothing."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPTS / "setup.sh", tmp_path / "scripts")
    (tmp_path / "scripts" / "install.py").write_text(
        "import sys; print('installed for', *sys.argv[1:])\n"
    )
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A Python whose environments are without pip, which takes seconds and which nobody calls."""
    path = tmp_path / "python"
    real = os.path.realpath(sys.executable)
    without = f'[ "$1 $2" = "-m venv" ] && shift 2 && exec {real} -m venv --without-pip "$@"'
    path.write_text(f'#!/bin/sh\n{without}\nexec {real} "$@"\n')
    path.chmod(0o755)
    return str(path)


def set_up(checkout: Path, python: str, *whom: str, **more: str) -> str:
    command = ["scripts/setup.sh", *whom]
    environment = {**os.environ, "PYTHON": python, **more}
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_another_python_makes_the_environment_anew(checkout: Path, python: str) -> None:
    assert "installed" in set_up(checkout, python)
    left = checkout / ".venv" / "left"
    left.touch()
    assert set_up(checkout, python) == ""
    other = checkout / "other"
    other.write_text(f'#!/bin/sh\n[ "$1" = -VV ] && echo other && exit\nexec {python} "$@"\n')
    other.chmod(0o755)
    assert left.exists()
    assert "installed" in set_up(checkout, str(other))
    assert not left.exists()


def test_another_index_of_torch_installs_again_once(checkout: Path, python: str) -> None:
    set_up(checkout, python)
    left = checkout / ".venv" / "left"
    left.touch()
    assert "installed" in set_up(checkout, python, TORCH_INDEX="")
    assert set_up(checkout, python, TORCH_INDEX="") == set_up(checkout, python) == ""
    assert left.exists()


def test_a_learners_environment_grows_when_tests_need_it_and_never_shrinks(
    checkout: Path, python: str
) -> None:
    assert "installed for learner" in set_up(checkout, python, "learner")
    assert set_up(checkout, python, "learner") == ""
    assert "installed for all" in set_up(checkout, python)
    assert set_up(checkout, python, "learner") == set_up(checkout, python) == ""
