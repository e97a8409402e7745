"""The labs of this repository, and a kernel that runs their notebooks in a folder of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.source import find_labs, load_lab
from autograder.records import Lab

LABS = Path(__file__).parents[2] / "labs"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "lab" in metafunc.fixturenames:
        labs = [load_lab(path) for path in find_labs(LABS)]
        metafunc.parametrize("lab", labs, ids=[lab.name for lab in labs], scope="session")


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
