"""What the learner's commands do: progress, reset, catch-up; with arguments already parsed."""

import argparse
import ast
import os
from collections.abc import Iterator
from pathlib import Path

from autograder.authoring.magics import plain_python
from autograder.authoring.manifest import MANIFEST, NOTEBOOK, read_handout
from autograder.errors import AutograderError, LabError, SubmissionError, UnknownLab
from autograder.grading.submission import read
from autograder.learner.answer_files import FOLDER
from autograder.learner.earlier import pieces
from autograder.learner.journal import Journal
from autograder.learner.practice import find_lab
from autograder.learner.progress import labs_in, progress, work_folder
from autograder.learner.running_notebook import ON_COLAB

_ANEW_ON_COLAB = "Keep yours by File, Save a copy in Drive; then open the lab's colab.ipynb anew."


def show_progress(arguments: argparse.Namespace) -> None:
    """Print the table over all labs."""
    print(progress(arguments.work))


def reset(arguments: argparse.Namespace) -> None:
    """Begin a lab anew; the old notebook is kept beside."""
    directory = _lab(arguments)
    if ON_COLAB in os.environ and not (directory / NOTEBOOK).exists():
        problem = f"reset: {directory}: on Colab the notebook is not on this machine's disk"
        raise LabError(f"{problem}. {_ANEW_ON_COLAB}")
    path, backup = begin_anew(directory)
    if backup is not None:
        print(f"Your notebook is kept: {backup}")
    print(f"A fresh one is in its place: {path}")
    print("If it is open in JupyterLab: File, Reload Notebook from Disk; then restart the kernel.")


def catch_up(arguments: argparse.Namespace) -> None:
    """Say which pieces of earlier labs a lab uses, and whether they are the learner's."""
    work = _work(arguments)
    labs = [_lab(arguments)] if arguments.lab else labs_in(work)
    for directory in labs:
        print("\n".join(_pieces(directory, work)))


def _pieces(directory: Path, work: Path) -> Iterator[str]:
    wanted = list(dict.fromkeys(_list_earlier_pieces(directory)))
    if not wanted:
        yield f"{directory.name}: uses nothing of an earlier lab. You can begin."
    for lab, *names in wanted:
        try:
            _, why = pieces(find_lab(lab, work), tuple(names))
        except AutograderError as error:
            why = str(error).rstrip(".")
        whose = f"the course's own, for {why}" if why else "yours, its checks pass"
        yield f"{directory.name}: {', '.join(names)} of lab {lab}: {whose}."


def _list_earlier_pieces(directory: Path) -> Iterator[tuple[str, ...]]:
    """Yield (lab, names ...) of the pieces that a lab's notebook asks for by `earlier`."""
    path = directory / NOTEBOOK
    try:  # on Colab the notebook is elsewhere, but the one that was handed out asks for the same
        data = path.read_bytes() if path.exists() else read_handout(directory).encode()
        cells = read(data).cells
    except (OSError, LabError, SubmissionError):
        return
    for text in (plain_python(text) for kind, text in cells if kind == "code"):
        try:
            calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        except SyntaxError:
            continue
        for call in calls:
            texts = [a.value for a in call.args if isinstance(a, ast.Constant)]
            if getattr(call.func, "id", "") == "earlier" and len(texts) > 1:
                yield tuple(map(str, texts))


def _work(arguments: argparse.Namespace) -> Path:
    return work_folder(arguments.work or Path.cwd(), named=arguments.work is not None)


def _lab(arguments: argparse.Namespace) -> Path:
    """Return the folder of the lab that was named: a path, or a name with or without its number."""
    named = Path(arguments.lab)
    return named if named.is_dir() else find_lab(arguments.lab, _work(arguments))


def begin_anew(directory: Path) -> tuple[Path, Path | None]:
    """Return the fresh notebook in `directory`, and the path to which the old one was moved.

    It is the one in the lab's manifest, as it was handed out. The old one, None where there was
    none, and answers in files stay beside. What the checks found goes; what was handed in stays.

    Raises:
        LabError: the folder is a lab's source, or was released without its notebook.
    """
    if not (directory / MANIFEST).is_file():
        if not directory.is_dir():
            raise UnknownLab(f"reset: {directory}: no such lab. See: autograder progress")
        problem = f"reset: {directory} is no released lab: it has no {MANIFEST}"
        raise LabError(f"{problem}. Name a folder in the working folder.")
    text = read_handout(directory)
    path, answers = directory / NOTEBOOK, directory / FOLDER
    backup = None
    if path.exists():
        backup = _beside(path)
        path.rename(backup)
    if answers.exists():
        answers.rename(_beside(answers))
    path.write_text(text, encoding="utf-8")
    journal = Journal.of(directory)
    journal.checked.clear()
    journal.save()
    return path, backup


def _beside(path: Path) -> Path:
    """Return the first of `lab-before-1.ipynb`, `lab-before-2.ipynb`, ... that is free."""
    number = 1
    while (free_path := path.with_name(f"{path.stem}-before-{number}{path.suffix}")).exists():
        number += 1
    return free_path
