"""Notebooks and archives that are broken, enormous, or lie about what they hold.

Whatever arrives has a report; what cannot be read scores nothing, and the next one is graded.
"""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autograder.authoring.source import load_lab
from autograder.grading.grade import LabGrader, solution_cells
from autograder.grading.report import to_html, to_json
from autograder.records import Limits
from autograder.sandbox import worker_pool

HERE = Path(__file__).parent
LAB = load_lab(HERE / "lab")
ANSWER = "def scale(x, factor):\n    return x * factor\n"


def notebook(*sources: object, **extra: object) -> bytes:
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": s} for s in sources]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, **extra}).encode()


def version_3() -> bytes:
    cells = [{"cell_type": "code", "input": ANSWER, "language": "python", "outputs": []}]
    whole = {"worksheets": [{"cells": cells}], "metadata": {"name": ""}, "nbformat": 3}
    return json.dumps(whole).encode()


def zipped(*entries: tuple[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return made.getvalue()


def tarred(*members: tarfile.TarInfo) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return made.getvalue()


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


def nested_zips(levels: int) -> bytes:
    data = notebook("x = 1")
    for _ in range(levels):
        data = zipped(("inner.zip", data))
    return data


UNREADABLE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "noise": lambda: bytes(range(256)) * 40,
    "not UTF-8": lambda: notebook(ANSWER + "# caf#").replace(b"caf#", b"caf\xe9"),
    "truncated": lambda: notebook(ANSWER)[:-20],
    "not a notebook": lambda: b'{"cells": 3}',
    "a number": lambda: b"1e999999",
    "deep": lambda: b"[" * 200_000 + b"]" * 200_000,
    "long number": lambda: b'{"cells": [], "nbformat": ' + b"9" * 100_000 + b"}",
    "half a surrogate": lambda: b'{"cells": [{"cell_type": "code", "source": "\\ud800 = 1"}]}',
    "wrong types": lambda: notebook(17, None, [1, {"a": 2}], {"x": []}),
    "null bytes": lambda: notebook("def scale(x, factor):\x00\n    return x"),
    "enormous": lambda: notebook("x" * (120 << 20)),
    "many cells": lambda: notebook(*(["pass"] * 200_000)),
    "deep expression": lambda: notebook("scale = " + "(" * 20_000 + ")" * 20_000),
    "long expression": lambda: notebook("scale = " + "-" * 200_000 + "1"),
    "zip bomb": lambda: zipped(("a.ipynb", bytes(300 << 20))),
    "nested zips": lambda: nested_zips(40),
    "path above": lambda: zipped(("../../attack-was-here.ipynb", b"{}")),
    "absolute path": lambda: zipped(("/tmp/attack-was-here.ipynb", b"{}")),
    "broken zip": lambda: zipped(("a.ipynb", notebook(ANSWER)))[:60],
    "links": lambda: tarred(member("a.ipynb", tarfile.SYMTYPE, "/etc/passwd")),
    "hard links": lambda: tarred(member("a.ipynb", tarfile.LNKTYPE, "../../lab/lab.py")),
    "devices": lambda: tarred(member("a.ipynb", tarfile.CHRTYPE)),
    "gzip bomb": lambda: gzip.compress(bytes(300 << 20)),
}
READABLE: dict[str, Callable[[], bytes]] = {
    "version 3": version_3,
    "byte order mark": lambda: b"\xef\xbb\xbf" + notebook(ANSWER),
    "lines": lambda: notebook(ANSWER.splitlines(keepends=True)),
    "duplicated cells": lambda: notebook(*[ANSWER] * 50),
    "duplicated keys": lambda: notebook(ANSWER)[:-1] + b', "nbformat": 4}',
    "next to broken cells": lambda: notebook("def (", "%%nonsense\n!rm -rf /", "\u202e x", ANSWER),
    "spaces without end": lambda: notebook("def (\nimport a" + " " * 400_000 + "b", ANSWER),
    "in an archive": lambda: zipped(("mine/lab.ipynb", notebook(ANSWER)), ("mine/a.txt", b"")),
}


@pytest.fixture(scope="module")
def grader() -> Iterator[LabGrader]:
    grader = LabGrader(LAB)
    grader.limits = Limits(wall_s=120, cpu_s=120, call_s=30)
    yield grader
    worker_pool.close_shared()


@pytest.mark.sandbox
@pytest.mark.parametrize("make", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_scores_nothing_and_has_its_report(
    make: Callable[[], bytes], grader: LabGrader
) -> None:
    report = grader.grade(make())
    assert report.score == 0
    assert report.max_score == 10
    assert "Traceback" not in to_json(report)
    assert to_html(report)
    assert not list(Path("/tmp").glob("*attack-was-here*"))
    assert grader.grade(notebook(*solution_cells(LAB))).score == 10


@pytest.mark.sandbox
@pytest.mark.parametrize("make", READABLE.values(), ids=READABLE.keys())
def test_what_is_odd_but_can_be_read_is_graded(
    make: Callable[[], bytes], grader: LabGrader
) -> None:
    report = grader.grade(make())
    assert report.score == 4, to_json(report)
