"""The notebook that runs, name and bytes, wherever its learner works.

Jupyter and VS Code tell the kernel the path of a file. Colab keeps the notebook where no kernel
reaches it, and its page hands over what it shows. nbclient, papermill and plain IPython tell
nothing: what then lies in the lab's folder is a guess, and is said to be one.
"""

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from autograder.authoring.manifest import NOTEBOOK
from autograder.errors import SubmissionError
from autograder.grading.submission import MAX_BYTES, MAX_PARTS

ON_COLAB = "COLAB_RELEASE_TAG"  # a variable of every kernel there
PAGE_WAIT_S = 20.0  # a page with many pictures takes some seconds
BY_HAND = "Or choose File, Download, Download .ipynb, and hand that file in."

# jupyter_server tells the kernel the notebook's path in this variable.
_SESSION = "JPY_SESSION_NAME"
_VSCODE = "__vsc_ipynb_file__"

# Colab's `blocking_request`: (what, request=, timeout_sec=) -> the page's answer; None: it was late
Ask = Callable[..., Any]


class Origin(Enum):
    """How it was found out which notebook runs."""

    FILE = "named, or told by Jupyter or VS Code"
    PAGE = "handed over by Colab's page"
    GUESS = "the one that lies in the lab's folder"


@dataclass(frozen=True)
class RunningNotebook:
    """A notebook's bytes, what it is called, and how sure it is that it is the one that runs."""

    name: str
    data: bytes
    origin: Origin

    def lacks(self, answers: list[str]) -> str:
        """Return what to do about answers that were run last and do not stand in it."""
        problem = f"does not have the {', '.join(answers)} that you ran last"
        if self.origin is Origin.FILE:
            return f"{self.name} {problem}. Save the notebook (Ctrl+S), then submit again."
        if self.origin is Origin.PAGE:
            advice = "Run its cell as it stands now, then submit again."
            return f"The notebook on this page {problem}. {advice}"
        advice = f"If it is yours, save it; if not, name yours: {_example_call('q.submit')}."
        return f"{self.name} {problem}, and nothing tells here which notebook runs. {advice}"


def running_notebook(
    named: object,
    folder: Path,
    namespace: Mapping[str, Any],
    environment: Mapping[str, str],
    ask: Ask | None = None,
) -> RunningNotebook:
    """Return the notebook that runs, or the one that was named.

    Args:
        named: a path, from here or from `folder`; None for the one that runs.
        folder: the lab's.
        ask: how Colab's page is asked (`page`); None where this is not Colab.

    Raises:
        SubmissionError: it cannot be told which it is, or it cannot be had.
    """
    if named is not None:
        path = Path(str(named)).expanduser()
        return _read(path if path.is_file() else folder / path, Origin.FILE)
    stated = [Path(str(p)) for p in (namespace.get(_VSCODE), environment.get(_SESSION)) if p]
    for path in stated:
        if path.suffix == ".ipynb" and path.is_file():
            return _read(path, Origin.FILE)
    if ask is not None:
        return from_page(ask)
    return _read(_only(folder), Origin.GUESS)


def page(environment: Mapping[str, str]) -> Ask | None:
    """Return how to ask the page that shows this notebook: on Colab; None elsewhere."""
    return _ask_colab if ON_COLAB in environment else None


def from_page(ask: Ask) -> RunningNotebook:
    """Return the notebook that Colab's page shows, without outputs if it is too large with them.

    Raises:
        SubmissionError: the page refuses, is late, or answers with something else.
    """
    try:
        answer = ask("get_ipynb", request="", timeout_sec=PAGE_WAIT_S)
    except Exception as error:  # a class that only Colab has, or its module has moved
        raise _no_page(f"cannot be asked for it: {str(error) or type(error).__name__}") from error
    if answer is None:
        raise _no_page(f"did not answer within {PAGE_WAIT_S:g} s")
    content = answer.get("ipynb") if isinstance(answer, Mapping) else None
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise _no_page("answered with something that is no notebook")
    text = json.dumps(content)
    if len(text) > MAX_BYTES or text.count("[") + text.count("{") > MAX_PARTS:
        text = json.dumps(_without_outputs(content))
    return RunningNotebook(_title(content), text.encode(), Origin.PAGE)


def _ask_colab(what: str, **options: Any) -> Any:
    return importlib.import_module("google.colab._message").blocking_request(what, **options)


def _no_page(problem: str) -> SubmissionError:
    start = f"submit: Colab's page, which holds this notebook, {problem}"
    return SubmissionError(f"{start}. Run this cell again with the page in view. {BY_HAND}")


def _without_outputs(content: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook without what grading does not read: outputs, and the state of widgets."""
    cells = [
        {**cell, "outputs": []} if isinstance(cell, dict) and "outputs" in cell else cell
        for cell in content["cells"]
    ]
    return {**content, "cells": cells, "metadata": {}}


def _title(content: dict[str, Any]) -> str:
    try:
        name = Path(str(content["metadata"]["colab"]["name"])).name
    except (KeyError, TypeError):
        name = ""
    return name or NOTEBOOK


def _only(folder: Path) -> Path:
    """Return the notebook in `folder` that is called as the lab's is, or the only one."""
    candidates = [folder / NOTEBOOK]
    if not candidates[0].is_file():
        candidates = sorted(folder.glob("*.ipynb"))[:2]
    if len(candidates) != 1:
        problem = "several notebooks are" if candidates else "no notebook is"
        advice = f"Name yours: {_example_call('q.submit')}. "
        advice += "Help: when_it_does_not_work.html#qsubmit-stores-nothing"
        problem = f"submit: nothing tells here which notebook runs, and {problem} in {folder}"
        raise SubmissionError(f"{problem}. {advice}")
    return candidates[0]


def _example_call(call: str) -> str:
    return f'{call}("path/to/my_notebook.ipynb")'


def _read(path: Path, origin: Origin) -> RunningNotebook:
    try:
        return RunningNotebook(path.name, path.read_bytes(), origin)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = f"submit: cannot read {path}: {reason}"
        raise SubmissionError(f"{problem}. Save the notebook and try again.") from error
