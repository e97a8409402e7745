"""The labs of this repository, and what runs their notebooks: a kernel, or shells of one import."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.audit.variants import Trials
from autograder.authoring.source import find_labs, load_lab
from autograder.records import Lab

LABS = Path(__file__).parents[2] / "labs"
WORKER = Path(__file__).parent / "shell_worker.py"
INLINE = "module://matplotlib_inline.backend_inline"

# Of what takes long and no check looks at, this much is enough to run it; all with WIDE=1.
SMALLER = {
    "00_the_machine": {
        "turns=9": "turns=1",
        "4096, 16)], 5)": "4096, 16)], 1)",
        "best_seconds(run, 5)": "best_seconds(run, 1)",
    },
    "01_gradients_by_hand": {
        "[128, 256, 512, 1024]": "[16, 32, 64, 128]",
        "images[:64]), 101)": "images[:64]), 11)",
        "params[0]), 5)": "params[0]), 1)",
        "train(rule, net, epochs=20)": "train(rule, net, epochs=2)",
        "epochs=15": "epochs=2",
    },
    "02_autodiff": {
        "[1_000, 10_000, 100_000], []": "[1_000, 3_000, 10_000], []",
        "[2, 4, 8, 12, 16, 20]": "[2, 4, 8, 12]",
    },
    "03_modules_and_training": {
        "repeats = 7 if size > 1e6 else 49": "repeats = 1",
        "300_000, 4_000_000]": "30_001]",
        "repeats=49 if n < 100 else 9": "repeats=3",
        "epochs=12": "epochs=2",
        "batches(12)": "batches(2)",
    },
    "04_dataflow_graphs": {
        "repeats=31": "repeats=3",
        "widths = [8, 32, 128, 512, 1024]": "widths = [8, 16, 32, 64, 128]",
    },
    "05_control_flow": {
        "for turn in range(320)": "for turn in range(40)",
        "for _ in range(5)]\nright": "for _ in range(2)]\nright",
        "for _ in range(150):": "for _ in range(15):",
        "sizes = [1, 4, 16, 64]": "sizes = [1, 4, 16]",
        "repeats=7": "repeats=2",
    },
    "06_graph_optimization": {
        "def train(step, steps=200)": "def train(step, steps=50)",
        "repeats=15": "repeats=3",
        "repeats=21": "repeats=3",
        "repeats=31": "repeats=3",
        "[16, 64, 256, 1024, 4096]": "[16, 64, 256]",
        "budget=8)": "budget=2)",
        "size=512, batch=2048": "size=64, batch=256",
        "pair_us(locks) for _ in range(2)": "pair_us(locks, 500) for _ in range(1)",
        "big = np.ones((4096, 4096)": "big = np.ones((512, 512)",
    },
    "07_compiling_operators": {
        "SEEDS = range(20)": "SEEDS = range(1)",
        "for s in range(5)": "for s in range(1)",
        "layer.task, trials=8": "layer.task, trials=2",
    },
    "08_collectives": {
        "contest(comm, sizes, repeats=3)": "contest(comm, sizes, repeats=1)",
        "epochs=6, batch=32": "epochs=1, batch=32",
    },
    "09_ring_all_reduce": {
        "[n_bytes], repeats=5": "[n_bytes], repeats=1",
        "[2**23], repeats=9": "[2**20], repeats=1",
        "(2, 3, 4, 5, 6, 7, 8)}": "(2, 4)}",
        "sizes, repeats=3, hosts=n": "sizes, repeats=1, hosts=n",
    },
    "10_data_parallel": {
        "(X[:SEEN], Y[:SEEN])": "(X[:300], Y[:300])",
        "steps=250": "steps=25",
        "(2, 4, 8)": "(2, 4)",
        "(10_000, 16, 8, 5, 3, 2, 1)": "(10_000, 5, 1)",
        "partial(batch, size=640)": "partial(batch, size=80)",
        "big_batch, hosts=2": "big_batch, 2, hosts=2",
        "big_batch, 9, now": "big_batch, 2, now",
        "repeats=30": "repeats=3",
    },
    "11_data_parallel_in_depth": {
        "STEPS, LINES = 150": "STEPS, LINES = 30",
        "shares = (1.0, 0.1, 0.01, 0.001)": "shares = (1.0, 0.01)",
        "averaging, 2, 60": "averaging, 2, 4",
        "turns=12": "turns=2",
        "keep, steps=150": "keep, steps=15",
    },
    "12_parameter_servers": {
        "X = np.ones(2**17)": "X = np.ones(2**12)",
        "[0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0]": "[0.02, 0.2, 1.0]",
        "[0, 4, 8, 12, 16, 24, 32, 64]": "[0, 16, 64]",
        "for staleness in (0, 1, 3):": "for staleness in (1,):",
        "max(launch(*args)) for _ in range(2)": "max(launch(*args)) for _ in range(1)",
        "fractions * SIZE) for _ in range(2)": "fractions * SIZE) for _ in range(1)",
    },
    "13_model_parallel": {"rounds=5": "rounds=1", "batches=10": "batches=3"},
    "14_placement": {"quickest(step, 9)": "quickest(step, 1)"},
    "15_serving": {
        "rate, seconds=1.0": "rate, seconds=0.1",
        "for x in test_flat)": "for x in test_flat[:10])",
        "for p in each] == test_labels)": "for p in each] == test_labels[:10])",
    },
    "16_at_scale": {"rounds=40": "rounds=10"},
    "17_data_systems": {"range(150)": "range(20)", '"w150"': '"w20"'},
    "18_language_model": {
        "STEPS = 450": "STEPS = 16",
        "milliseconds(*runs, repeats=5)": "milliseconds(*runs, repeats=1)",
        "[by_data], 6)": "[by_data], 2)",
        "2, ways, 6)": "2, ways, 2)",
        "in range(3)]\nBESIDES": "in range(1)]\nBESIDES",
        'whole.npz", 12, 4': 'whole.npz", 3, 1',
        'killed.npz", 12, 4, dies_at=10': 'killed.npz", 3, 1, dies_at=2',
        "for readers in (1, 8) * 3": "for readers in (1, 8)",
        "len(PROMPT), 40)": "len(PROMPT), 5)",
        "len(PROMPT), 30)": "len(PROMPT), 5)",
    },
}


def in_small(lab: Lab, cells: list[str]) -> list[str]:
    """Return a lab's cells with less of what takes long."""
    pairs = {} if os.environ.get("WIDE") else SMALLER.get(lab.name, {})
    for long, short in pairs.items():
        assert any(long in cell for cell in cells), f"{lab.name} has no {long!r}"
        cells = [cell.replace(long, short) for cell in cells]
    return cells


@functools.cache
def every_lab() -> list[Lab]:
    return [load_lab(path) for path in find_labs(LABS)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "lab" in metafunc.fixturenames:
        labs = every_lab()
        metafunc.parametrize("lab", labs, ids=[lab.name for lab in labs], scope="session")


@pytest.fixture(scope="session")
def trials(lab: Lab) -> Iterator[Trials]:
    """One worker, which has imported what the lab needs, for all tests of a lab."""
    with Trials(lab, jobs=1) as found:
        yield found


@pytest.fixture
def run_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Return a function that runs a notebook's text beside its lab and returns its code cells."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONHASHSEED", "0")

    def run(lab: Lab, text: str, *, stop_at_errors: bool) -> list[Any]:
        import nbformat
        from nbclient import NotebookClient

        notebook = nbformat.reads(text, as_version=4)
        NotebookClient(
            notebook,
            timeout=240,
            kernel_name="python3",
            allow_errors=not stop_at_errors,
            resources={"metadata": {"path": str(lab.directory)}},
        ).execute()
        return [cell for cell in notebook.cells if cell.cell_type == "code"]

    return run


@pytest.fixture(scope="session")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., dict[str, Any]]]:
    """Return a function that runs a lab's cells in a fresh shell: what they said, and their errors.

    Figures are drawn as in a notebook, or by another `backend` of matplotlib.
    """
    environment = {
        **os.environ,
        "IPYTHONDIR": str(tmp_path_factory.mktemp("ipython")),
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }
    worker = subprocess.Popen(
        [sys.executable, str(WORKER)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    asking, answering = worker.stdin, worker.stdout
    assert asking is not None and answering is not None

    def run(cells: list[str], directory: Path, backend: str = INLINE) -> dict[str, Any]:
        request = {"cells": cells, "directory": str(directory), "backend": backend}
        asking.write(json.dumps(request) + "\n")
        asking.flush()
        found: dict[str, Any] = json.loads(answering.readline())
        return found

    yield run
    asking.close()
    worker.wait()
    answering.close()
