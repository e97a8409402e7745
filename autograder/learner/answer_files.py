"""Answers in files, for those who like an editor: what `q.edit("name")` opens.

`answers/NAME.py` in the lab's folder holds the answer to a question for as long as it is there:
its checks run the file, and what is handed in has its text in the question's cell, whatever stands
there. So nothing writes to a notebook that is open elsewhere.
"""

import json
import linecache
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

from autograder.errors import AutograderError
from autograder.grading.submission import FROM_FILES

FOLDER = "answers"


class AnswerFileError(AutograderError):
    """The file with an answer cannot be read or run."""


def answer_file(folder: Path, question: str) -> Path:
    """Return where the answer to a question lies if it lies in a file."""
    return folder / FOLDER / f"{question}.py"


def text_in_file(folder: Path, question: str) -> str | None:
    """Return the text of an answer that lies in a file; None: it stands in the notebook.

    Raises:
        AnswerFileError: there is a file that cannot be read.
    """
    path = answer_file(folder, question)
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise AnswerFileError(f"{_short(path)} cannot be read: {error}") from error


def run(text: str, path: Path, namespace: MutableMapping[str, Any]) -> None:
    """Run the text of a file with an answer, as its cell would have run.

    Raises:
        AnswerFileError: it raises; says in which line.
    """
    name = str(path)
    linecache.checkcache(name)
    try:
        exec(compile(text, name, "exec", dont_inherit=True), namespace)  # type: ignore[arg-type]
    except Exception as error:
        line = error.lineno if isinstance(error, SyntaxError) else _line(error, name)
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        where = f"{_short(path)}, line {line}"
        raise AnswerFileError(f"{where}: {type(error).__name__}: {message}") from error


def with_files(notebook: bytes, folder: Path) -> bytes:
    """Return a notebook in which the answers that lie in files stand in their cells.

    The file of a question whose cell is gone becomes a cell at the end. What is no notebook in
    JSON is returned as it is: whoever reads it will say so.

    Raises:
        AnswerFileError: a file cannot be read.
    """
    names = [path.stem for path in sorted((folder / FOLDER).glob("*.py"))]
    if not names:
        return notebook
    files = {name: text for name in names if (text := text_in_file(folder, name)) is not None}
    try:
        content = json.loads(notebook)
        cells = content["cells"]
        for cell, question in _answer_cells(cells):
            if question in names:  # a second cell of one question is a copy
                cell["source"] = files.pop(question, "")
        content["metadata"] = {**content.get("metadata", {}), FROM_FILES: names}
    except (ValueError, KeyError, TypeError):
        return notebook
    more: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
    }
    cells += [{**more, "source": text} for text in files.values()]
    return json.dumps(content, ensure_ascii=False).encode()


def cell_text(notebook: bytes, question: str) -> str | None:
    """Return what stands in the cell of a question, or None."""
    try:
        for cell, name in _answer_cells(json.loads(notebook)["cells"]):
            if name == question:
                return "".join(cell["source"])
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _answer_cells(cells: list[Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the code cells that are for answers, each with its question."""
    for cell in cells:
        about = cell.get("metadata", {}).get("nbgrader", {})
        if cell["cell_type"] == "code" and about.get("solution"):
            yield cell, str(about.get("grade_id"))


def _line(error: BaseException, path: str) -> int | None:
    """Return the last line of the file that the error came through."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
