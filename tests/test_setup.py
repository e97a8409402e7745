"""The set-up: which build of PyTorch is taken, what is said beforehand, when all is made anew."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from scripts import install

SCRIPTS = Path(__file__).parent.parent / "scripts"
NOBODY = "http://127.0.0.1:9/simple"
TORCH = ["torch==99.1"]
UV = [sys.executable, "-m", "uv"]


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
def uv(tmp_path: Path) -> install.Uv:
    """A uv that installs into an environment of its own, from indexes that a test names."""
    venv.create(tmp_path / "env", with_pip=False)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("UV_", "PIP_"))}
    environment |= {"UV_DEFAULT_INDEX": NOBODY, "UV_NO_CACHE": "1", "UV_HTTP_RETRIES": "0"}
    return install.Uv(UV, str(tmp_path / "env" / "bin" / "python"), environment)


def installed(tmp_path: Path) -> list[str]:
    command = [*UV, "pip", "freeze", "--python", str(tmp_path / "env" / "bin" / "python")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_without_a_device_the_cpu_build_of_torchs_own_index_is_installed(
    uv: install.Uv, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cpu = index_of(tmp_path / "cpu", "99.1+cpu", "99.1")
    install.install_torch(uv, TORCH, None, has_device=False, cpu_index=cpu)
    assert installed(tmp_path) == ["torch==99.1+cpu"]
    assert "no CUDA device, so PyTorch's CPU build" in capfd.readouterr().out


def test_an_index_that_does_not_answer_leaves_the_build_to_the_usual_one(
    uv: install.Uv, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    install.install_torch(uv, TORCH, None, has_device=False, cpu_index=NOBODY)
    assert installed(tmp_path) == []
    output, errors = capfd.readouterr()
    assert f"{NOBODY} does not answer" in output
    assert errors == ""


def test_with_a_device_the_cpu_builds_are_not_asked_for(uv: install.Uv, tmp_path: Path) -> None:
    cpu = index_of(tmp_path / "cpu", "99.1+cpu")
    install.install_torch(uv, TORCH, None, has_device=True, cpu_index=cpu)
    assert installed(tmp_path) == []


def test_an_index_that_was_asked_for_wins_over_what_is_installed(
    uv: install.Uv, tmp_path: Path
) -> None:
    cpu = index_of(tmp_path / "cpu", "99.1+cpu")
    install.install_torch(uv, TORCH, None, has_device=False, cpu_index=cpu)
    own = index_of(tmp_path / "own", "99.1+cu130")
    install.install_torch(uv, TORCH, own, has_device=False, cpu_index=cpu)
    assert installed(tmp_path) == ["torch==99.1+cu130"]


def test_an_index_that_was_asked_for_and_does_not_answer_is_an_error(
    uv: install.Uv, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(install.InstallError, match=r"this failed, for the reason above"):
        install.install_torch(uv, TORCH, NOBODY, has_device=False)
    assert NOBODY in capfd.readouterr().err


def test_an_index_asked_for_as_empty_is_the_usual_one(uv: install.Uv, tmp_path: Path) -> None:
    cpu = index_of(tmp_path / "cpu", "99.1+cpu")
    uv.environment["UV_DEFAULT_INDEX"] = index_of(tmp_path / "own", "99.1")
    install.install_torch(uv, TORCH, "", has_device=False, cpu_index=cpu)
    assert installed(tmp_path) == ["torch==99.1"]


def test_packages_come_from_where_pips_configuration_says(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = http://one/simple\nextra-index-url = http://two\n    http://three\n"
        "find-links = /wheels /more\ntimeout = 3\n"
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_INDEX": "http://own"}
    environment["PIP_CONFIG_FILE"] = str(tmp_path / "pip.conf")
    variables = install.uv_environment(environment)
    assert variables["UV_DEFAULT_INDEX"] == "http://one/simple"
    assert variables["UV_INDEX"] == "http://own"
    assert variables["UV_FIND_LINKS"] == "/wheels,/more"
    del environment["UV_INDEX"]
    environment["PIP_INDEX_URL"] = "http://of-the-environment"
    variables = install.uv_environment(environment)
    assert variables["UV_DEFAULT_INDEX"] == "http://of-the-environment"
    assert variables["UV_INDEX"].split() == ["http://two", "http://three"]
    assert "timeout" not in " ".join(variables).lower()


def test_the_extras_of_all_are_installed_but_for_some() -> None:
    extras = {"x": ["b"], "torch": ["c"], "all": ["ours[x,torch]"], "learn": ["ours[x]"]}
    assert install.chosen_extras(extras) == ["x", "torch"]
    assert install.chosen_extras(extras, ["torch"]) == ["x"]


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


@pytest.mark.parametrize(
    ("options", "version", "chosen"),
    [
        ("--enable-shared", "(3, 11)", "the system's"),
        ("--enable-shared --enable-optimizations", "(3, 11)", "of PATH"),
        ("--enable-shared", "(3, 12)", "of PATH"),
        ("--enable-shared", "", "of PATH"),  # as where the system's has no venv
    ],
)
def test_the_systems_python_takes_the_place_of_one_built_without_optimization(
    checkout: Path, python: str, options: str, version: str, chosen: str
) -> None:
    def write(name: str, title: str, version: str) -> None:
        (checkout / name).write_text(
            '#!/bin/sh\ncase "$*" in\n'
            f"*CONFIG_ARGS*) case '{options}' in *optimizations*) exit 1 ;; esac; exit ;;\n"
            f"*ensurepip*) echo '{version}'; [ '{version}' ]; exit ;;\n"
            f'-V) echo "{title}"; exit ;;\nesac\nexec {python} "$@"\n'
        )
        (checkout / name).chmod(0o755)

    write("python3", "of PATH", "(3, 11)")
    write("system", "the system's", version)
    path = f"{checkout}:{os.environ['PATH']}"
    system = str(checkout / "system")
    output = set_up(checkout, "", PATH=path, SYSTEM_PYTHON=system)
    assert f"making .venv with {chosen} (" in output


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
