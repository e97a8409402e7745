"""`make test-gpu` and `make bench-gpu` without a device: what is run, told and written."""

import importlib
import json
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from scripts import gpu

SCRIPTS = Path(__file__).parent.parent / "scripts"
TESTS = """
import pytest
def test_good(): pass
def test_wrong(): assert 1 + 1 == 3, "no | three"
@pytest.mark.skip(reason="not here")
def test_left_out(): pass
"""


def python(program: str, name: str = "part") -> Any:
    return gpu.Part(name, [sys.executable, "-c", program])


def outcomes(rows: Any) -> list[tuple[str, str]]:
    return [(row.name.rpartition("::")[2], row.outcome) for row in rows]


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SCRIPTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def part_of(file: Path) -> Any:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "gpu_tests", "--noconftest"]
    return gpu.Part(file.name, [*command, "-c", "/dev/null", "--rootdir", str(file.parent), file])


def test_every_test_becomes_a_row_with_its_reason(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    rows = gpu.run(part_of(tmp_path / "test_it.py"), environment, 100)
    assert sorted(outcomes(rows)) == [
        ("test_good", "passed"), ("test_left_out", "skipped"), ("test_wrong", "failed")
    ]  # fmt: skip
    notes = {row.outcome: row.note for row in rows}
    assert notes["skipped"] == "not here"
    assert "no | three" in notes["failed"]


FILES = {
    "lacks.py": ("import not_a_package_here", "skipped"),
    "lacks_late.py": ("def test_late():\n    import not_a_package_here", "skipped"),
    "lacks_ours.py": ("import minitorch.not_a_module", "failed"),
    "wrong.py": ("1 / 0", "failed"),
}


def test_a_file_without_its_packages_is_skipped_and_a_broken_one_has_failed(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    environment["PYTHONPATH"] += f":{SCRIPTS.parent}"
    for name, (line, _) in FILES.items():
        (tmp_path / f"test_{name}").write_text(line)
    part = part_of(tmp_path)
    part = gpu.Part(part.name, [*part.command, "--continue-on-collection-errors"])
    rows = {Path(row.name.partition("::")[0]).name: row for row in gpu.run(part, environment, 100)}
    told = {name.removeprefix("test_"): row.outcome for name, row in rows.items()}
    assert told == {name: outcome for name, (_, outcome) in FILES.items()}
    for row in rows.values():
        assert ("not_a_package_here" in row.note) == (row.outcome == "skipped")


RECORD = """
import json, os, pathlib
pathlib.Path(os.environ["GPU_RECORD"]).write_text(json.dumps(dict(name="a", outcome="passed")))
"""


def test_a_part_that_crashes_keeps_its_rows_and_costs_no_other_part_its_own(
    environment: dict[str, str],
) -> None:
    parts = [python(f"{RECORD}\nos.abort()", "crash"), python(RECORD)]
    rows = list(gpu.run_all(parts, environment, 100, 100))
    assert outcomes(rows) == [("a", "passed"), ("crash", "failed"), ("a", "passed")]
    assert "signal 6" in rows[1].note


def test_a_part_that_hangs_is_ended_with_all_it_has_started(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    os.mkfifo(tmp_path / "alive")
    end = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    part = gpu.Part("hang", ["sh", "-c", f"sleep 1000 >{tmp_path}/alive & wait"])
    rows = gpu.run(part, environment, 0.5)
    os.set_blocking(end, True)
    assert os.read(end, 1) == b""  # which waits for the last process that may write
    os.close(end)
    assert outcomes(rows) == [("hang", "failed")]
    assert "ended by its limit" in rows[0].note


def test_when_the_time_is_over_what_is_left_is_named(environment: dict[str, str]) -> None:
    rows = list(gpu.run_all([python("", "late")], environment, 100, 0))
    assert outcomes(rows) == [("late", "failed")]
    assert "not begun" in rows[0].note


@pytest.mark.parametrize(
    ("status", "rows", "wrong"),
    [(0, ["passed"], False), (1, ["failed"], False), (5, ["skipped"], False),
     (0, [], True), (1, ["passed"], True), (None, ["passed"], True), (-9, ["failed"], True)],
)  # fmt: skip
def test_an_end_that_the_rows_do_not_tell_is_told(
    status: int | None, rows: list[str], wrong: bool
) -> None:
    ended = gpu.unexpected_end(status, 1.0, [gpu.Row("x", outcome) for outcome in rows])
    assert bool(ended) == wrong


ABOUT = {"python": "3", "torch": "2", "cuda": "13", "numpy": "2", "missing": ["llvmlite"]}


def test_each_command_writes_its_own_section_of_the_devices_page(tmp_path: Path) -> None:
    file = tmp_path / f"{gpu.slug('NVIDIA H100 80GB HBM3')}.md"
    tested = [gpu.Row("t", "failed", "a | b\nmore", 1.0), gpu.Row("u", "skipped", "no x")]
    timed = [gpu.Row("m", "measured", "", 0.0, 3.0, 2.0), gpu.Row("n", "failed", "why")]
    timed.append(gpu.Row("p", "measured", "", 0.0, 3.0, 2.0, 1.5))
    for what, rows in (("test", []), ("bench", timed), ("test", tested)):
        gpu.write(file, "NVIDIA H100", what, gpu.section(what, ABOUT, [], rows, 1.0))
    assert file.name == "nvidia-h100-80gb-hbm3.md"
    text = file.read_text()
    assert text.startswith("# NVIDIA H100\n\n## `make test-gpu`\n")
    assert text.count("## `make test-gpu`") == text.count("## `make bench-gpu`") == 1
    assert "| t | failed | 1.0 | a \\| b |" in text
    assert "| m | 3.000 | 2.000 | 1.50 |  |  |" in text
    assert "| p | 3.000 | 2.000 | 1.50 | 1.500 | 0.50 |" in text
    assert "| n | failed | why |" in text
    assert "Missing packages: llvmlite." in text
    assert "1 failed, 1 skipped" in text


def test_a_python_that_sees_no_device_says_so(tmp_path: Path) -> None:
    blind = tmp_path / "python"
    blind.write_text("#!/bin/sh\necho 'sees no CUDA device' >&2\nexit 1\n")
    blind.chmod(0o755)
    assert gpu.find_python([str(blind)], "cuda") == (None, f"  {blind}: sees no CUDA device")
    found, about = gpu.find_python([str(blind), sys.executable], "cpu")
    assert found == sys.executable
    assert about["device"] == "stand-in cpu"


def test_a_missing_array_api_compat_is_lent_from_scikit_learns_or_scipys(tmp_path: Path) -> None:
    lent = gpu.lend(sys.executable, ["array_api_compat"], tmp_path)
    assert any(name.startswith("array_api_compat") for name in lent)
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        file, total = pool.submit(use_lent, str(tmp_path)).result(100)
    assert str(tmp_path) in file
    assert total == 3


def use_lent(folder: str) -> tuple[str, int]:
    """Use array_api_compat of a folder, in a process that may have another already."""
    sys.path.insert(0, folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "array_api_compat"]:
        del sys.modules[name]
    xp = importlib.import_module("array_api_compat.torch")
    return str(xp.__file__), xp.arange(3).sum().item()


def test_every_measurement_runs_over_a_stand_in(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    root = str(SCRIPTS.parent)
    environment |= {"GPU_DEVICE": "cpu", "PYTHONPATH": root}
    kernels = next(p for p in gpu.bench_parts(sys.executable) if "kernels" in p.name)
    rows = gpu.run(kernels, environment, 200)
    assert [row.outcome for row in rows] == ["skipped", "skipped", "measured"]
    assert "no CUDA device here" in rows[1].note
    assert json.dumps(rows[2].ours_ms) != "null"
