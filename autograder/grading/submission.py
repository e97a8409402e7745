"""Intake: whatever bytes arrive become the cells of a notebook, or a reason fit for the learner.

Nothing is written to disk and nothing is run. Sizes are bounded before memory is used, archives
are opened in memory and their paths are never followed.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from autograder.errors import SubmissionError
from autograder.grading.archives import Unpacked, is_archive, unpack
from autograder.printable import printable
from autograder.records import MIB, Submission

MAX_BYTES = 32 * MIB  # a notebook with many pictures in its outputs is a tenth of that
MAX_PARTS = 500_000  # lists and objects, each of which is a hundred times its text in memory
MAX_CODE_CHARS = MIB // 2  # the text of all cells; the longest honest labs have a tenth
MAX_CELLS = 5_000
SAVE_AGAIN = "Save the notebook in JupyterLab and send that file."
CLEAR = "Clear its outputs (Edit, Clear Outputs of All Cells) and save."

FROM_FILES = "answers_from_files"  # in a notebook's metadata: questions whose files it has taken

_EDIT = re.compile(r"^[^#\n]*\bq\.edit\(\s*[\"'](\w+)[\"']", re.M)
_LAB = re.compile(r"^\w+[ \t]*=[ \t]*lab\([\"']([\w-]{1,100})[\"']\)", re.M)
_LABS_NAME = re.compile(r"[\w-]{1,100}")
_ANSWER = re.compile(r"^[ \t]*\*\*Answer\*\*[ \t]*\((\w+)\)[ \t]*:[ \t]*$", re.M)


def read(data: bytes) -> Submission:
    """Return the notebook in `data`: an .ipynb of any format version, or an archive with one.

    Raises:
        SubmissionError: there is no notebook in it, or it is too large; says what to do.
    """
    notes: list[str] = []
    data = _within(data)
    if is_archive(data):
        notebooks = unpack(data, MAX_BYTES)
        data = _one_notebook(notebooks)
        notes.append(f"Taken from an archive: {printable(notebooks[0].name, 200)}.")
    text = _text(data)
    if text.count("[") + text.count("{") > MAX_PARTS:
        raise SubmissionError(f"notebook: more than {MAX_PARTS} lists and objects. {CLEAR}")
    content = _json(text)
    cells = tuple(_cells(content, notes))
    if sum(len(text) for _, text in cells) > MAX_CODE_CHARS:
        raise SubmissionError(f"notebook: its cells hold more than {MAX_CODE_CHARS} characters.")
    notes += _note_left_out_files(content, cells)
    return Submission(cells, tuple(notes), tuple(_labs(content, cells)))


def manual_answers(submission: Submission) -> dict[str, str]:
    """Return the text after each line `**Answer** (name):`, by name; the last one counts."""
    answers: dict[str, str] = {}
    for kind, text in submission.cells:
        if kind != "markdown":
            continue
        pieces = _ANSWER.split(text)
        for name, answer in zip(pieces[1::2], pieces[2::2], strict=True):
            answers[name] = answer.strip()
    return answers


def _labs(content: Any, cells: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the labs that a notebook says it is of, as it was released; it may say anything."""
    ours = _metadata(content).get("autograder")
    name = ours.get("lab") if isinstance(ours, dict) else None
    if isinstance(name, str) and _LABS_NAME.fullmatch(name):
        yield name
    for kind, text in cells:
        if kind == "code":
            yield from _LAB.findall(text)


def _metadata(content: Any) -> dict[str, Any]:
    metadata = content.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _note_left_out_files(content: Any, cells: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield a note where answers were put into files that this notebook has not taken in."""
    taken = _metadata(content).get(FROM_FILES)
    edited = [name for kind, text in cells if kind == "code" for name in _EDIT.findall(text)]
    in_files = taken if isinstance(taken, list) else ()
    names = [name for name in dict.fromkeys(edited) if name not in in_files]
    if names:
        files = printable(", ".join(f"answers/{name}.py" for name in names), 200)
        yield (
            f"q.edit was used for {files}. What was graded is the notebook's cells. To hand in "
            "the files, use q.submit() in the notebook, or `autograder submit`."
        )


def _within(data: bytes) -> bytes:
    if not data.strip(b"\0 \t\r\n"):
        raise SubmissionError(f"notebook: the file is empty. {SAVE_AGAIN}")
    if len(data) > MAX_BYTES:
        size, most = len(data) // MIB, MAX_BYTES // MIB
        problem = f"notebook: too large: got {size} MiB, expected at most {most} MiB."
        raise SubmissionError(f"{problem} {CLEAR}")
    return data


def _one_notebook(notebooks: list[Unpacked]) -> bytes:
    if len(notebooks) > 1:
        best = [f for f in notebooks if f.name.rsplit("/", 1)[-1] == "lab.ipynb"]
        if len(best) != 1:
            names = ", ".join(sorted(printable(f.name, 80) for f in notebooks)[:5])
            problem = f"archive: holds {len(notebooks)} notebooks: {names}. Send one."
            raise SubmissionError(problem)
        notebooks[:] = best
    return _within(notebooks[0].data)


def _text(data: bytes) -> str:
    encoding = "utf-8-sig"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        problem = f"notebook: not UTF-8 text: byte {error.start} is not part of any character."
        raise SubmissionError(f"{problem} {SAVE_AGAIN}") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise SubmissionError(f"notebook: nested too deeply. {SAVE_AGAIN}") from error
    except ValueError as error:
        problem = f"notebook: not JSON: {error}."
        start = text.lstrip()[:200].lower()
        if start.startswith(("<!doctype", "<html")):
            problem = "notebook: this is a web page, not a notebook."
        elif start.startswith("{"):
            problem = f"notebook: its JSON is broken or cut off: {error}."
        raise SubmissionError(f"{printable(problem)} {SAVE_AGAIN}") from error


def _cells(content: Any, notes: list[str]) -> Iterator[tuple[str, str]]:
    raw = content.get("cells") if isinstance(content, dict) else None
    if raw is None and isinstance(content, dict) and isinstance(content.get("worksheets"), list):
        sheets = [s for s in content["worksheets"] if isinstance(s, dict)]
        raw = [c for s in sheets if isinstance(s.get("cells"), list) for c in s["cells"]]
        notes.append("Written in an old notebook format; read all the same.")
    if not isinstance(raw, list):
        raise SubmissionError(f'notebook: JSON, but without a list "cells". {SAVE_AGAIN}')
    if len(raw) > MAX_CELLS:
        raise SubmissionError(f"notebook: {len(raw)} cells, expected at most {MAX_CELLS}.")
    odd = 0
    for cell in raw:
        kind = cell.get("cell_type") if isinstance(cell, dict) else None
        source = _source(cell) if isinstance(cell, dict) else None
        if kind not in ("code", "markdown", "raw", "heading") or source is None:
            odd += 1
            yield "raw", ""
        else:
            yield str(kind), source.encode("utf-8", "replace").decode("utf-8")
    if odd:
        notes.append(f"{odd} of {len(raw)} cells could not be read and were left out.")


def _source(cell: dict[str, Any]) -> str | None:
    """Return a cell's text: a string, or a list of them; `input` in the formats before 4."""
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    return source if isinstance(source, str) else None
