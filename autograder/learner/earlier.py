"""A learner's piece of an earlier lab, for use in a later one: `earlier("ring_all_reduce", ...)`.

    ring = earlier("ring_all_reduce", "ring_all_reduce", reference=course_ring)

If their notebook of that lab has the piece, and its checks are content with it, the piece is
theirs. Otherwise, as in grading, where there is only the notebook that was handed in, it is the
reference: an implementation of the course's packages, which everybody has and nobody has to
write. So an unfinished lab stops nobody, and no solution has to be given away.

Imports nothing at the top: sandboxed code asks for it too.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from autograder.learner.practice import Practice

__all__ = ["earlier"]


def earlier(lab: str, name: str, *, reference: Any, directory: "str | Path | None" = None) -> Any:
    """Return the learner's `name` of the lab called `lab` if its checks pass, else `reference`.

    Says which of the two it is. `name` is a question of that lab; its public checks run on what
    the learner's notebook defines, with all that the definition needs.

    Args:
        lab: the lab's name, with or without its number.
        directory: where to look for the lab, and above; this notebook's folder by default.
    """
    try:
        found, why = _theirs(lab, name, directory)
    except ImportError:  # the sandbox holds none of what this needs
        return reference
    if why:
        print(f"{name}: the course's own, for {why}.")
        return reference
    print(f"{name}: yours, from lab {lab}.")
    return found


def _theirs(lab: str, name: str, directory: "str | Path | None") -> tuple[Any, str]:
    """Return the learner's piece, or None and why it is not there."""
    from pathlib import Path

    from autograder.errors import AutograderError
    from autograder.learner.practice import find_lab

    start = Path(directory or Path.cwd()).resolve()
    try:
        return piece(find_lab(lab, start), name)
    except AutograderError as error:
        return None, f"yours cannot be had: {str(error).rstrip('.')}"


def piece(directory: "Path", name: str) -> tuple[Any, str]:
    """Return what the notebook in `directory` defines as `name`, or None and why it does not.

    Raises:
        AutograderError: the lab or its notebook cannot be read.
    """
    from autograder.learner.practice import Practice
    from autograder.student.local import notebook_names

    names = notebook_names()
    texts: dict[str, str] = {}
    practice = Practice(directory, names, lambda: list(texts.values()))
    question = practice.lab.question(name)
    if question is None or question.manual:
        return None, f"{practice.lab.name} has no such question"
    _load(practice, names, texts, name)
    found = practice.judged(question)
    if str(found.outcome) == "correct":
        return names[name] if name in names else names[question.defines[0]], ""
    return None, f"yours in {practice.lab.name} is {found.outcome}"


def _load(practice: "Practice", names: dict[str, Any], texts: dict[str, str], name: str) -> None:
    """Run what `name` needs of the learner's notebook in `names`; note the texts that ran."""
    from autograder.authoring.manifest import NOTEBOOK
    from autograder.checks import load_checks
    from autograder.errors import SubmissionError
    from autograder.grading.grade import CHECKS
    from autograder.grading.slicing import needed, statements_of
    from autograder.grading.submission import read
    from autograder.learner.answer_files import with_files
    from autograder.student.local import LocalStudent

    path = practice.lab.directory / NOTEBOOK
    try:
        data = with_files(path.read_bytes(), practice.lab.directory)
        statements = statements_of(read(data).cells)
    except OSError as error:
        raise SubmissionError(f"{path} cannot be read: {error.strerror}") from error
    question = practice.lab.question(name)
    asked = load_checks(practice.lab.directory / CHECKS).names
    roots = {*(question.defines if question else ()), *asked}
    wanted = needed(statements, roots)
    LocalStudent(names).load(wanted)
    texts.update({f"{s.cell}:{s.line}": s.text for s in wanted})
