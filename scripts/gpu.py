"""`make test-gpu` and `make bench-gpu`: run what needs a CUDA device, and write what was found.

No set-up and no network: the first Python here whose torch sees the device runs everything, `.venv`
or the one that runs this. What it lacks is skipped and named. Each part is a process of its own
with a time limit, so that one that crashes or hangs costs nobody else its result; all parts
together have ten minutes. The result is a section of `docs/results/<device>.md`; the exit status
is 1 if anything failed or nothing ran. GPU_DEVICE=cpu takes the processor for a stand-in, and
writes into `build/results`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 540.0  # of all parts; starting and writing have the rest of ten minutes
CAP_S = {"test": 400.0, "bench": 150.0}  # of one part
WANTED = ("pytest", "llvmlite", "cloudpickle", "array_api_compat")
PROBE = f"""
import importlib.util, json, platform, sys
if sys.version_info < (3, 11): sys.exit("Python 3.11 or newer is needed: " + sys.version.split()[0])
import numpy, torch
cuda = torch.cuda.is_available()
stand_in = sys.argv[1] == "cpu"
if not (cuda or stand_in): sys.exit("torch " + torch.__version__ + " sees no CUDA device")
about = dict(python=platform.python_version(), torch=torch.__version__, numpy=numpy.__version__,
    cuda=torch.version.cuda if cuda else None,
    device="stand-in cpu" if stand_in else torch.cuda.get_device_name(),
    missing=[name for name in {WANTED} if importlib.util.find_spec(name) is None])
print(json.dumps(about))
"""
EXPECTTEST = '''"""In place of the package of this name: all that torch's own samples need of it."""
import unittest

TestCase = unittest.TestCase
'''


@dataclass(frozen=True)
class Row:
    """What became of a test or a measurement; milliseconds of ours, PyTorch's, and predicted."""

    name: str
    outcome: str
    note: str = ""
    seconds: float = 0.0
    ours_ms: float | None = None
    torch_ms: float | None = None
    predicted_ms: float | None = None


@dataclass(frozen=True)
class Part:
    """A process that appends rows to $GPU_RECORD."""

    name: str
    command: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tests or the measurements; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("test", "bench"))
    what = parser.parse_args(argv).what
    device = os.environ.get("GPU_DEVICE", "cuda")
    python, about = find_python([str(ROOT / ".venv/bin/python"), sys.executable], device)
    if python is None:
        print(f"{what}-gpu: nothing here can use the device {device!r}:\n{about}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        lent = lend(python, about["missing"], Path(folder))
        path = os.pathsep.join([str(ROOT), str(ROOT / "scripts"), folder])
        environment = {**os.environ, "PYTHONPATH": path, "GPU_DEVICE": device}
        parts = test_parts(python) if what == "test" else bench_parts(python)
        began = time.monotonic()
        rows = list(run_all(parts, environment, CAP_S[what], LIMIT_S))
    elapsed_s = time.monotonic() - began
    where = ROOT / ("build" if device == "cpu" else "docs") / "results"
    file = where / f"{slug(about['device'])}.md"
    write(file, about["device"], what, section(what, about, lent, rows, elapsed_s))
    print(f"\n{counts(rows)}; written to {file.relative_to(ROOT)}")
    return 1 if failures(rows) or all(row.outcome == "skipped" for row in rows) else 0


# ── what there is ───────────────────────────────────────────────────────────────────────────────


def find_python(candidates: Sequence[str], device: str) -> tuple[str | None, Any]:
    """Return the first Python that can use the device and what it has, or None and why none can."""
    reasons = []
    for python in candidates:
        if not Path(python).exists():
            continue
        command = [python, "-c", PROBE, device]
        probe = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if probe.returncode == 0:
            return python, json.loads(probe.stdout.splitlines()[-1])
        reasons.append(f"  {python}: {(probe.stderr.strip().splitlines() or ['?'])[-1]}")
    return None, "\n".join(reasons)


def lend(python: str, missing: Sequence[str], folder: Path) -> list[str]:
    """Put into `folder` what can stand for a missing package; return what was put there."""
    lent = []
    if "array_api_compat" in missing and (copy := find_vendored(python)):
        (folder / "array_api_compat").symlink_to(copy)
        lent.append(f"array_api_compat (the copy in {copy.parts[-3]})")
    if not _has(python, "expecttest"):
        (folder / "expecttest.py").write_text(EXPECTTEST)
        lent.append("expecttest (a stand-in)")
    return lent


def find_vendored(python: str) -> Path | None:
    """Return the folder of array_api_compat that SciPy or scikit-learn bring with them."""
    program = "import sys; print('\\n'.join(sys.path))"
    listing = subprocess.run([python, "-c", program], capture_output=True, text=True, cwd=ROOT)
    for place in map(Path, filter(None, listing.stdout.splitlines())):
        for package in ("scipy", "sklearn"):
            for module in (place / package).glob("*/array_api_compat/torch"):
                return module.parent
    return None


def _has(python: str, module: str) -> bool:
    return not subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode


# ── what is run ─────────────────────────────────────────────────────────────────────────────────


def test_parts(python: str) -> list[Part]:
    """Return a part for each file with tests that need a device, the longest last."""
    options = "-q -m gpu --import-mode=importlib -p no:cacheprovider -p gpu_tests -W default"
    files = sorted(
        (p for p in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in p.read_text("utf-8")),
        key=lambda p: (p.name == "test_opinfo.py", p),
    )
    command = [python, "-m", "pytest", *options.split(), "-o", "addopts="]
    names = [str(file.relative_to(ROOT)) for file in files]
    return [Part(name, [*command, name]) for name in names]


def bench_parts(python: str) -> list[Part]:
    """Return a part for each script of measurements."""
    scripts = sorted(p for p in (ROOT / "bench/gpu").glob("*.py") if p.name != "measuring.py")
    return [Part(f"bench/gpu/{script.name}", [python, str(script)]) for script in scripts]


def run_all(
    parts: Sequence[Part], environment: dict[str, str], cap_s: float, limit_s: float
) -> Iterator[Row]:
    """Run the parts in turn; yield the rows of each."""
    end = time.monotonic() + limit_s
    for part in parts:
        print(f"== {part.name}", flush=True)
        left_s = end - time.monotonic()
        if left_s < 1:
            yield Row(part.name, "failed", f"not begun: the {limit_s:.0f} s of all parts are over")
            continue
        for row in run(part, environment, min(cap_s, left_s)):
            if row.outcome not in ("passed", "measured"):
                print(f"  {row.outcome}: {row.name}: {first_line(row.note)}", flush=True)
            yield row


def run(part: Part, environment: dict[str, str], limit_s: float) -> list[Row]:
    """Return what a part recorded; an end that is not its own is a failure more."""
    with tempfile.TemporaryDirectory() as folder:
        record, output = Path(folder) / "rows", Path(folder) / "output"
        record.touch()
        with output.open("wb") as out:
            process = subprocess.Popen(
                part.command,
                cwd=ROOT,
                env={**environment, **part.environment, "GPU_RECORD": str(record)},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            status: int | None
            try:
                status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:  # whatever it has started ends with it
                _end_group(process)
        lines = record.read_text("utf-8").splitlines()
        printed = output.read_text("utf-8", "replace").strip().splitlines()
    rows = [Row(**json.loads(line)) for line in lines]
    problem = unexpected_end(status, limit_s, rows)
    if problem:
        rows.append(
            Row(part.name, "failed", f"{problem}: {printed[-1] if printed else 'no output'}")
        )
    return rows


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def unexpected_end(status: int | None, limit_s: float, rows: Sequence[Row]) -> str:
    """Return what is wrong with how a part ended, "" if its rows tell everything."""
    if status is None:
        return f"ended by its limit of {limit_s:.0f} s"
    if status < 0:
        return f"ended by signal {-status}"
    if not rows:
        return f"ended with status {status} and no result"
    return "" if status == 0 or any(r.outcome != "passed" for r in rows) else f"status {status}"


# ── what is written ─────────────────────────────────────────────────────────────────────────────


def failures(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of what failed."""
    return [row for row in rows if row.outcome not in ("passed", "measured", "skipped")]


def counts(rows: Sequence[Row]) -> str:
    """Return how many rows have each outcome, in words."""
    outcomes = [row.outcome for row in rows]
    numbers = {name: outcomes.count(name) for name in ("passed", "measured", "failed", "skipped")}
    return (
        ", ".join(f"{number} {name}" for name, number in numbers.items() if number) or "no result"
    )


def slug(device: str) -> str:
    """Return a device's name as that of a file."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def section(
    what: str, about: dict[str, Any], lent: Sequence[str], rows: Sequence[Row], took_s: float
) -> str:
    """Return the section of the page that `make test-gpu` or `make bench-gpu` writes."""
    versions = [f"{name} {about[name]}" for name in ("python", "torch", "cuda", "numpy")]
    lines = [
        f"## `make {what}-gpu`",
        "",
        f"{datetime.date.today()}: {', '.join(versions)}.",
        f"Missing packages: {', '.join(about['missing']) or 'none'}.",
        *([f"Lent: {', '.join(lent)}."] if lent else []),
        f"{counts(rows)} in {took_s:.0f} s.",
        "",
        *(test_table(rows) if what == "test" else bench_table(rows)),
    ]
    return "\n".join(lines) + "\n"


def test_table(rows: Sequence[Row]) -> list[str]:
    """Return the table of tests."""
    head = ["| test | result | s | note |", "|---|---|---:|---|"]
    return head + [
        f"| {cell(r.name)} | {r.outcome} | {r.seconds:.1f} | {cell(r.note)} |" for r in rows
    ]


def bench_table(rows: Sequence[Row]) -> list[str]:
    """Return the table of measurements, then that of what was not measured."""
    lines = [
        "| what | ours, ms | PyTorch, ms | ratio | predicted least, ms | share of it |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for r in rows:
        if r.ours_ms is not None and r.torch_ms is not None:
            ratio, least = f"{r.ours_ms / r.torch_ms:.2f}", " | "
            if r.predicted_ms is not None:
                least = f"{r.predicted_ms:.3f} | {r.predicted_ms / r.ours_ms:.2f}"
            lines.append(
                f"| {cell(r.name)} | {r.ours_ms:.3f} | {r.torch_ms:.3f} | {ratio} | {least} |"
            )
    rest = [r for r in rows if r.outcome != "measured"]
    if rest:
        lines += ["", "| not measured | result | note |", "|---|---|---|"]
        lines += [f"| {cell(r.name)} | {r.outcome} | {cell(r.note)} |" for r in rest]
    return lines


def cell(text: str) -> str:
    """Return text as it may stand in a table."""
    return first_line(text).replace("|", "\\|")


def first_line(text: str) -> str:
    """Return the first line that says something, not too long."""
    return next((line.strip()[:200] for line in text.splitlines() if line.strip()), "")


def write(file: Path, device: str, what: str, new: str) -> None:
    """Write the section into the device's page; the other command's stays."""
    file.parent.mkdir(parents=True, exist_ok=True)
    old = file.read_text("utf-8") if file.exists() else ""
    parts = {
        part.partition("\n")[0]: "## " + part.rstrip() + "\n"
        for part in re.split(r"^## ", old, flags=re.MULTILINE)[1:]
    }
    parts[f"`make {what}-gpu`"] = new
    sections = "\n".join(parts[title] for title in sorted(parts, reverse=True))
    file.write_text(f"# {device}\n\n{sections}", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
