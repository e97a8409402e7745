"""Labs as VS Code runs them: the notebooks it opens, and a kernel in the state that it sets up.

VS Code starts the kernel in the notebook's folder without a Jupyter server, so there is no
JPY_SESSION_NAME; it tells the notebook's path in a variable instead, and `__main__` has no file.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring.notebook import learner_notebook
from autograder.authoring.release import release
from autograder.authoring.source import find_labs, load_lab
from autograder.formats.colab import CHECKOUT
from autograder.learner.running_notebook import Origin, running_notebook

NOTEBOOKS = [*(CHECKOUT / "labs").glob("*/lab.ipynb"), *(CHECKOUT / "labs/demos").glob("*/*.ipynb")]
ELSEWHERE = (
    "%%javascript",
    "window.Jupyter",
    "Jupyter.notebook",
    "requirejs",
    "%%js",
    "jupyterapp",
)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.parent.name)
def test_a_notebook_is_what_vscode_reads(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(nbformat.from_dict(content))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert content["metadata"]["kernelspec"]["name"] == "python3"
    assert content["metadata"]["language_info"]["name"] == "python"
    ids = [cell["id"] for cell in content["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in ids)
    text = "".join("".join(cell["source"]) for cell in content["cells"])
    assert [word for word in ELSEWHERE if word in text] == []


@pytest.mark.parametrize("directory", find_labs(CHECKOUT / "labs"), ids=lambda path: path.name)
def test_what_vscode_writes_back_keeps_tags_and_ids(directory: Path) -> None:
    given = json.loads(learner_notebook(load_lab(directory)))
    # It writes with an indent of its own, sources as lists, and keys in another order.
    saved = json.loads(json.dumps(dict(reversed(given.items())), indent=4))
    again = nbformat.reads(json.dumps(saved), as_version=4)
    for before, after in zip(given["cells"], again.cells, strict=True):
        assert (after.id, after.metadata.get("tags")) == (
            before["id"],
            before["metadata"].get("tags"),
        )


@pytest.fixture
def kernel(lab_copy: Callable[..., Path], tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Return a way to run code in a kernel that VS Code has set up; what the code printed."""
    from jupyter_client.manager import KernelManager

    release(load_lab(lab_copy()), tmp_path / "work")
    folder = tmp_path / "work" / "copied_lab"
    shutil.move(folder / "lab.ipynb", folder / "my copy.ipynb")
    hidden = ("JPY_", "JUPYTER")
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(folder), env={**env, "IPYTHONDIR": str(tmp_path / "ipython")})
    client = manager.blocking_client()
    client.start_channels()

    def run(code: str) -> str:
        said: list[str] = []

        def hear(message: Any) -> None:
            content = message["content"]
            shown = content.get("data", {}).get("text/plain", "")
            trace = "\n".join(content.get("traceback", []))
            said.append(content.get("text", "") or shown or trace)

        client.execute_interactive(code, output_hook=hear, timeout=120, allow_stdin=False)
        return "".join(said)

    try:
        client.wait_for_ready(timeout=60)
        run(f"__vsc_ipynb_file__ = {str(folder / 'my copy.ipynb')!r}")
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_lab_is_checked_in_a_kernel_of_vscode(kernel: Callable[[str], str]) -> None:
    assert kernel("import __main__; print(hasattr(__main__, '__file__'))").strip() == "False"
    kernel("from autograder import lab\nq = lab('copied_lab')")
    kernel("def scale(x, factor):\n    return x * factor")
    assert "✓ scale: correct." in kernel("q.check('scale')")
    said = kernel("q.submit()")
    assert "Name yours" not in said
    assert "does not have the scale that you ran last" in said
    assert "my copy.ipynb" in said


def test_ranks_run_from_a_kernel_of_vscode(kernel: Callable[[str], str]) -> None:
    kernel("import ddp_lab\nbase = 10\ndef f(comm):\n    return base + comm.rank")
    assert kernel("print(ddp_lab.launch(f, 2))").strip() == "[10, 11]"
    assert "ZeroDivisionError" in kernel("ddp_lab.launch(lambda comm: 1 / comm.rank, 2)")


def test_the_notebook_that_vscode_names_counts_before_any_other(tmp_path: Path) -> None:
    for name in ("lab.ipynb", "mine.ipynb", "other.ipynb"):
        (tmp_path / name).write_text("{}")
    told = {"__vsc_ipynb_file__": str(tmp_path / "mine.ipynb")}
    found = running_notebook(
        None, tmp_path, told, {"JPY_SESSION_NAME": str(tmp_path / "lab.ipynb")}
    )
    assert (found.name, found.origin) == ("mine.ipynb", Origin.FILE)


@pytest.mark.parametrize(
    "path", ["untitled:Untitled-1.ipynb", "/c:/Users/me/lab.ipynb", "a\0b", ""]
)
def test_a_notebook_of_vscode_without_a_file_here_is_a_guess(tmp_path: Path, path: str) -> None:
    (tmp_path / "lab.ipynb").write_text("{}")
    found = running_notebook(None, tmp_path, {"__vsc_ipynb_file__": path}, {})
    assert (found.name, found.origin) == ("lab.ipynb", Origin.GUESS)
