"""A learner's piece of an earlier lab, for use in a later one: `earlier("ring_all_reduce", ...)`.

    ring = earlier("ring_all_reduce", "ring_all_reduce", reference=course_ring)

If their notebook of that lab has the piece, and its checks are content with it, the piece is
theirs. Otherwise, as in grading, where there is only the notebook that was handed in, it is the
reference: an implementation of the course's packages, which everybody has and nobody has to
write. So an unfinished lab stops nobody, and no solution has to be given away. Pieces that belong
together, such as a class and its base, are asked for together, and are all theirs or all ours.

Imports nothing at the top: sandboxed code asks for it too.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from autograder.learner.practice import Practice

__all__ = ["earlier"]


def earlier(lab: str, *names: str, reference: Any, directory: "str | Path | None" = None) -> Any:
    """Return the learner's `names` of the lab called `lab` if their checks pass, else `reference`.

    Says which of the two it is. A name is a question of that lab, or something that the answer to
    one defines; its public checks run on what the learner's notebook defines, with all that the
    definition needs. Of several names the result is a tuple, and so is `reference`.

    Args:
        lab: the lab's name, with or without its number.
        directory: where to look for the lab, and above; this notebook's folder by default.
    """
    try:
        values, why = _load_learners_pieces(lab, names, directory)
    except ImportError:  # the sandbox holds none of what this needs
        return reference
    called = ", ".join(names)
    if why:
        print(f"{called}: the course's own, for {why}.")
        return reference
    print(f"{called}: yours, from lab {lab}.")
    return values if len(names) > 1 else values[0]


def _load_learners_pieces(
    lab: str, names: tuple[str, ...], directory: "str | Path | None"
) -> tuple[tuple[Any, ...], str]:
    """Return the learner's pieces, or none and why they are not there."""
    from pathlib import Path

    from autograder.errors import AutograderError
    from autograder.learner.practice import find_lab

    start = Path(directory or Path.cwd()).resolve()
    try:
        return pieces(find_lab(lab, start), names)
    except AutograderError as error:
        return (), f"yours cannot be had: {str(error).rstrip('.')}"


def pieces(directory: "Path", names: tuple[str, ...]) -> tuple[tuple[Any, ...], str]:
    """Return what the notebook in `directory` defines by these names, or none and why it does not.

    Raises:
        AutograderError: the lab or its notebook cannot be read.
    """
    from autograder.learner.practice import Practice
    from autograder.student.local import notebook_names

    defined = notebook_names()
    texts: dict[str, str] = {}
    practice = Practice(directory, defined, lambda: list(texts.values()))
    answered = [q for q in practice.lab.questions if not q.manual]
    questions = {name: q for q in answered for name in (*q.defines, q.name)}
    for name in names:
        if name not in questions:
            return (), f"{practice.lab.name} has no such question"
    defined_names = {name for n in names for name in questions[n].defines}
    _load(practice, defined, texts, defined_names)
    for question in dict.fromkeys(questions[name] for name in names):
        judgement = practice.judge(question)
        if str(judgement.outcome) != "correct":
            whose = "yours" if len(names) == 1 else f"your {question.name}"
            return (), f"{whose} in {practice.lab.name} is {judgement.outcome}"
    held = [name if name in defined else questions[name].defines[0] for name in names]
    return tuple(defined[name] for name in held), ""


def _load(
    practice: "Practice", names: dict[str, Any], texts: dict[str, str], roots: set[str]
) -> None:
    """Run what `roots` need of the learner's notebook in `names`; note the texts that ran."""
    from contextlib import nullcontext

    from autograder.authoring.manifest import NOTEBOOK
    from autograder.errors import SubmissionError
    from autograder.grading.grade import LabGrader
    from autograder.grading.slicing import select_needed, statements_of
    from autograder.grading.submission import read
    from autograder.learner.answer_files import with_files
    from autograder.student.local import LocalStudent

    path = practice.lab.directory / NOTEBOOK
    try:
        data = with_files(path.read_bytes(), practice.lab.directory)
        statements = statements_of(read(data).cells)
    except OSError as error:
        raise SubmissionError(f"{path} cannot be read: {error.strerror}") from error
    student = LocalStudent(names)
    checked = LabGrader(practice.lab, open_student=lambda _: nullcontext(student)).names
    needed_statements = select_needed(statements, {*roots, *checked})
    student.load(needed_statements)
    texts.update({f"{s.cell}:{s.line}": s.text for s in needed_statements})
