"""A lab begun anew without losing work: the old notebook, and answers in files, stay beside.

The notebook as it was handed out stands in the lab's manifest, so that a released folder needs
nothing else.
"""

from pathlib import Path

from autograder.authoring.manifest import MANIFEST, NOTEBOOK, read_handout
from autograder.errors import LabError, UnknownLab
from autograder.learner.answer_files import FOLDER
from autograder.learner.journal import Journal


def reset(directory: Path) -> tuple[Path, Path | None]:
    """Return the fresh notebook in `directory`, and the path to which the old one was moved.

    The old one is None where there was none. What the checks found goes; what was handed in stays.

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
