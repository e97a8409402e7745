"""Whatever bytes arrive: a notebook's cells, or a reason; never anything else."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.errors import SubmissionError
from autograder.grading.archives import is_archive
from autograder.grading.submission import MAX_CELLS, manual_answers, read

NOTEBOOK = json.dumps({"cells": [{"cell_type": "code", "source": ["x = 1\n", "y = 2"]}]}).encode()
CELLS = (("code", "x = 1\ny = 2"),)


def zipped(**files: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "/"), data)
    return target.getvalue()


def tarred(name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.size, info.linkname = kind, len(data), "/etc/passwd"
        archive.addfile(info, io.BytesIO(data))
    return target.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        NOTEBOOK,
        b"\xef\xbb\xbf" + NOTEBOOK,
        NOTEBOOK.decode().encode("utf-16"),
        b"\n\n  " + NOTEBOOK,
        gzip.compress(NOTEBOOK),
        zipped(**{"lab.ipynb": NOTEBOOK}),
        zipped(**{"a__b__lab.ipynb": NOTEBOOK, "__MACOSX__lab.ipynb": b"junk"}),
        zipped(**{"inner.zip": zipped(**{"lab.ipynb": NOTEBOOK})}),
        zipped(**{"lab.ipynb": NOTEBOOK, "other.ipynb": b"{}"}),
        tarred("lab.ipynb", NOTEBOOK),
        gzip.compress(tarred("x/lab.ipynb", NOTEBOOK)),
    ],
    ids=[
        "plain", "bom", "utf-16", "blank lines", "gzip", "zip", "zip with folders", "zip in zip",
        "zip of two", "tar", "tar.gz",
    ],
)  # fmt: skip
def test_a_notebook_is_read_from_whatever_it_comes_in(data: bytes) -> None:
    assert read(data).cells == CELLS


def test_an_old_notebook_format_is_read() -> None:
    old = {
        "nbformat": 3,
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "code", "input": ["x = 1"], "language": "python"},
                    {"cell_type": "heading", "level": 1, "source": "Title"},
                ]
            }
        ],
    }
    found = read(json.dumps(old).encode())
    assert found.cells == (("code", "x = 1"), ("heading", "Title"))
    assert "old notebook format" in found.notes[0]


def bomb() -> bytes:
    return zipped(**{"lab.ipynb": b" " * (40 << 20)})


def nested(depth: int) -> bytes:
    data = NOTEBOOK
    for _ in range(depth):
        data = zipped(**{"a.zip" if is_archive(data) else "lab.ipynb": data})
    return data


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: b"", "empty"),
        (lambda: b"\0" * 100, "empty"),
        (lambda: b" " * (33 << 20) + b"{}", "too large"),
        (lambda: NOTEBOOK[:-5], "broken or cut off"),
        (lambda: b"hello", "not JSON"),
        (lambda: b"<!DOCTYPE html><html></html>", "web page"),
        (lambda: b"[1, 2]", 'without a list "cells"'),
        (lambda: b"null", 'without a list "cells"'),
        (lambda: b'{"cells": {"a": 1}}', 'without a list "cells"'),
        (lambda: b'{"worksheets": [1, {"cells": 2}]}', ""),
        (lambda: '{"cells": "é"}'.encode("latin-1"), "not UTF-8 text: byte 11"),
        (lambda: b"[" * 1_000_000, "lists and objects"),
        (lambda: b"[" * 100_000, "nested too deeply"),
        (lambda: b'{"cells": ' + b"[" * 400_000 + b"]" * 400_000 + b"}", "nested too deeply"),
        (lambda: b'{"cells": [' + b"9" * 10_000 + b"]}", "JSON"),
        (lambda: json.dumps({"cells": [{}] * (MAX_CELLS + 1)}).encode(), "cells, expected at most"),
        (lambda: NOTEBOOK.replace(b"x = 1", b"x" * (1 << 20)), "more than"),
        (bomb, "unpacks to more than 32 MiB"),
        (lambda: gzip.compress(b"\0" * (40 << 20)), "unpacks to more than"),
        (lambda: nested(6), "nested more than"),
        (lambda: zipped(**{"..__..__lab.ipynb": NOTEBOOK}), "holds no notebook"),
        (lambda: zipped(**{"__etc__lab.ipynb": NOTEBOOK}), "holds no notebook"),
        (lambda: zipped(**{"readme.txt": b"hi"}), "holds no notebook"),
        (lambda: zipped(**{"a.ipynb": NOTEBOOK, "b.ipynb": NOTEBOOK}), "holds 2 notebooks"),
        (lambda: zipped(**{f"{i}.txt": b"" for i in range(3_000)}), "more than 2000 files"),
        (lambda: zipped(**{"lab.ipynb": NOTEBOOK})[:-30], "cannot be read"),
        (lambda: gzip.compress(NOTEBOOK)[:-9], "cannot be read"),
        (lambda: tarred("lab.ipynb", b"", tarfile.SYMTYPE), "holds no notebook"),
        (lambda: tarred("lab.ipynb", b"", tarfile.CHRTYPE), "holds no notebook"),
        (lambda: b"PK\x03\x04 no zip at all", "cannot be read"),
    ],
)
def test_what_is_no_notebook_has_a_reason(make: Callable[[], bytes], says: str) -> None:
    if not says:
        assert read(make()).cells == ()
        return
    with pytest.raises(SubmissionError) as caught:
        read(make())
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_cells_that_cannot_be_read_are_left_out_and_noted() -> None:
    cells = [
        7,
        None,
        {"cell_type": "code", "source": 3},
        {"cell_type": "odd"},
        {"cell_type": "code", "source": "x"},
    ]
    found = read(json.dumps({"cells": cells}).encode())
    assert found.cells[-1] == ("code", "x")
    assert found.notes == ("4 of 5 cells could not be read and were left out.",)


def test_lone_surrogates_become_printable() -> None:
    (cell,) = read(b'{"cells": [{"cell_type": "code", "source": "x = \\"\\ud800\\""}]}').cells
    cell[1].encode("utf-8")


def test_manual_answers_are_found_by_their_line_and_the_last_counts(notebook) -> None:
    cells = [
        ("markdown", "Why?\n\n**Answer** (why):\n\nFirst."),
        ("code", "**Answer** (other):\nno"),
        ("markdown", "**Answer** (why):\nSecond.\n\n**Answer** (how):\n\nSo."),
    ]
    assert manual_answers(read(notebook(cells))) == {"why": "Second.", "how": "So."}


@pytest.mark.parametrize("text", [" " * 400_000, "\n" * 400_000, "**Answer** (" * 30_000])
def test_long_blanks_cost_no_time_to_look_for_answers(notebook, text: str) -> None:
    assert manual_answers(read(notebook([("markdown", text)]))) == {}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(
        ["cells", "worksheets", "source", "input", "cell_type"]), inner),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=150)
@given(st.binary(max_size=400) | json_values.map(lambda v: json.dumps(v).encode()))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = read(data)
    except SubmissionError:
        return
    assert all(isinstance(part, str) for cell in found.cells for part in cell)


@settings(max_examples=100)
@given(st.data())
def test_a_damaged_archive_is_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(zipped(**{"a__lab.ipynb": NOTEBOOK, "b.zip": zipped(x=b"y")}))
    for _ in range(3):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        read(bytes(whole))
    except SubmissionError:
        return
