"""The gradebook as other programs read it."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import main
from autograder.service.errors import ServerError
from autograder.service.records.submissions.submissions import Entry
from autograder.service.reports.exports import FORMATS
from autograder.service.reports.gradebook import gradebook
from autograder.service.running import command_line

CELL = '{{"cells": [{{"cell_type": "code", "source": "{}"}}]}}'


@pytest.fixture
def graded(running: Any) -> Any:
    """Ada has 4 in the first lab and 0 in the second, Zoë 0 in the first, Bob nothing."""
    ada, zoe, _ = running.enroll("Ada, Countess"), running.enroll("Zoë"), running.enroll("Bob")
    for who, lab, source in (
        (ada, "first", "x = 1"),
        (ada, "first", "x = 2"),
        (ada, "second", "x = 2"),
        (zoe, "first", "x = 2"),
    ):
        running.wait(who.submit(lab, CELL.format(source).encode())["id"])
    return running


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_csv_has_a_line_a_learner_and_lab(graded: Any) -> None:
    found = rows(graded.staff.text("export", format="csv"))
    assert found[0][:5] == ["learner", "lab", "score", "max_score", "state"]
    assert [row[:5] for row in found[1:]] == [
        ["Ada, Countess", "01_first", "4", "4", "graded"],
        ["Ada, Countess", "02_second", "0", "4", "graded"],
        ["Zoë", "01_first", "0", "4", "graded"],
    ]


def test_canvas_has_a_row_of_points_possible_and_a_row_a_learner(graded: Any) -> None:
    found = rows(graded.staff.text("export", format="canvas"))
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "01_first", "02_second"]
    assert found[0] == head
    assert found[1] == ["    Points Possible", "", "", "", "", "4", "4"]
    assert found[2:] == [
        ["Ada, Countess", "", "", "Ada, Countess", "", "4", "0"],
        ["Bob", "", "", "Bob", "", "", ""],
        ["Zoë", "", "", "Zoë", "", "0", ""],
    ]


def test_moodle_has_a_username_and_a_column_a_lab(graded: Any) -> None:
    found = rows(graded.staff.text("export", format="moodle"))
    assert found[0] == ["username", "01_first", "02_second"]
    assert found[1:] == [["Ada, Countess", "4", "0"], ["Bob", "", ""], ["Zoë", "0", ""]]


def test_gradescope_has_results_json_of_each(graded: Any) -> None:
    found = json.loads(graded.staff.text("export", format="gradescope"))
    assert [(e["learner"], e["lab"], e["results"]["score"]) for e in found] == [
        ("Ada, Countess", "01_first", 4.0),
        ("Ada, Countess", "02_second", 0.0),
        ("Zoë", "01_first", 0.0),
    ]
    assert {"name", "score", "max_score", "status", "output"} <= found[0]["results"]["tests"][
        0
    ].keys()


def test_an_empty_course_exports_headers_alone(running: Any) -> None:
    assert len(rows(running.staff.text("export", format="csv"))) == 1
    assert json.loads(running.staff.text("export", format="gradescope")) == []


def test_an_unknown_format_is_refused(running: Any) -> None:
    with pytest.raises(ServerError, match="expected one of csv, canvas, moodle, gradescope"):
        running.staff.text("export", format="xlsx")


def test_the_command_line_offers_the_formats_there_are() -> None:
    assert tuple(FORMATS) == command_line.FORMATS


def entry(number: int, state: str, score: float | None) -> Entry:
    return Entry(number, 1, "Ada", "lab", "0", state, None, 0.0, None, score, 4.0, 0, 0)


def test_the_best_counts_the_latest_of_equals_and_graded_before_failed() -> None:
    entries = [entry(1, "graded", 3.0), entry(2, "graded", 3.0), entry(3, "graded", 1.0)]
    assert gradebook(["Ada"], entries)["Ada"]["lab"].id == 2
    entries = [entry(1, "graded", 0.0), entry(2, "parked", None), entry(3, "stored", None)]
    assert gradebook(["Ada"], entries)["Ada"]["lab"].id == 1


# As each platform exports it: its own names, ids, quotes and signs for nothing.
CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,01_first (90210),Quiz (7)
,,,,,Manual Posting,
    Points Possible,,,,,4.0,10.0
"Lovelace, Ada",501,u1,"Ada, Countess",S-1,,9
"Zoë",502,u2,zoë,S-1,1.0,
Else,503,u3,else,S-2,,3
"""
MOODLE = """"First name",Surname,"ID number","Email address",\
"Assignment: first (Real)","Course total (Real)"
Ada,Lovelace,1,ADA@example.org,-,-
Zoë,=Z,2,nobody@example.org,-,-7.5
"""
GRADESCOPE = """First Name,Last Name,SID,Email,Sections
Ada,Lovelace,Zoë,ada@example.org,A
No,Body,,,
"""


@pytest.fixture
def with_emails(graded: Any) -> Any:
    graded.staff.roster(b'login,email\n"Ada, Countess",ada@example.org\n')
    return graded


def filled(running: Any, format: str, template: str, lab: str = "") -> list[list[str]]:
    file = io.BytesIO()
    running.staff.export_to(format, file, template=template.encode(), lab=lab)
    return rows(file.getvalue().decode())


def test_canvas_gets_its_own_file_back_with_its_ids(with_emails: Any) -> None:
    found = filled(with_emails, "canvas", CANVAS)
    own = rows(CANVAS.lstrip("\ufeff"))
    assert found[0] == [*own[0], "02_second"]
    assert found[1] == [*own[1], ""]
    assert found[2] == [*own[2], "4"]
    assert found[3] == ["Lovelace, Ada", "501", "u1", "Ada, Countess", "S-1", "4", "9", "0"]
    assert found[4] == ["Zoë", "502", "u2", "zoë", "S-1", "0", "", ""]
    assert found[5] == [*own[5], ""]


TITLED = """# %% [markdown]
# # {}
# %% question="scale" points="4"
def scale(): ...
"""


def test_the_column_of_a_lab_is_found_by_its_title_where_one_alone_has_it(
    graded: Any, labs: Path
) -> None:
    head = "SIS Login ID,{}\nzoë,\n"
    (labs / "01_first/lab.py").write_text(TITLED.format("Lab 01: Scale, and sum"))
    (labs / "02_second/lab.py").write_text(TITLED.format("Lab 02: Rings"))
    for column in ('"Lab 01: Scale, and sum (77)"', '"1. scale, and sum"', '"Scale, and sum"'):
        found = filled(graded, "canvas", head.format(column), lab="first")
        assert found[1] == ["zoë", "0"], column
    both = head.format('"Scale, and sum","Lab 1: Scale, and sum"')
    assert filled(graded, "canvas", both, lab="first")[0][3] == "01_first"
    (labs / "02_second/lab.py").write_text(TITLED.format("Lab 02: First"))
    found = filled(graded, "canvas", head.format("first"))
    assert found[0] == ["SIS Login ID", "first", "02_second"]
    (labs / "02_second/lab.py").write_text(TITLED.format("Lab 02: Scale, and sum"))
    found = filled(graded, "canvas", head.format('"Scale, and sum"'), lab="first")
    assert found[0] == ["SIS Login ID", "Scale, and sum", "01_first"]


def test_canvas_s_test_student_is_passed_over_with_a_word(
    graded: Any, tmp_path: Path, capsys: Any
) -> None:
    test = '"Student, Test",9,,0f41e68d,S-1,,\n'
    lines = CANVAS.replace("Else,503,u3,else,S-2,,3\n", test)
    (tmp_path / "canvas.csv").write_text(lines)
    asked = ["export", "--format", "canvas", "--template", str(tmp_path / "canvas.csv")]
    for where in (
        ["--server", graded.staff.server, "--token", graded.staff.token],
        ["--data", str(tmp_path / "data")],
    ):
        assert main([*asked, *where]) == 0
        printed = capsys.readouterr()
        assert rows(printed.out)[5] == [*next(csv.reader([test.strip()])), ""]
        assert printed.err == "export: line 6: Canvas's test student: left as it was\n"


def test_moodle_is_matched_by_email_and_its_sign_for_nothing_stays(with_emails: Any) -> None:
    found = filled(with_emails, "moodle", MOODLE, lab="first")
    assert found[0] == rows(MOODLE)[0]
    assert found[1] == ["Ada", "Lovelace", "1", "ADA@example.org", "4", "-"]
    assert found[2] == ["Zoë", "'=Z", "2", "nobody@example.org", "-", "-7.5"]


def test_gradescope_is_matched_by_email_before_its_numbers(with_emails: Any) -> None:
    found = filled(with_emails, "gradescope", GRADESCOPE, lab="first")
    assert found == [
        ["First Name", "Last Name", "SID", "Email", "Sections", "01_first"],
        ["Ada", "Lovelace", "Zoë", "ada@example.org", "A", "4"],
        ["No", "Body", "", "", "", ""],
    ]


@pytest.mark.parametrize("between", [";", "\t"])
def test_a_file_keeps_what_stands_between_its_cells(with_emails: Any, between: str) -> None:
    """Canvas and Moodle write semicolons where a number has a comma; Moodle tabs too."""
    file = io.BytesIO()
    lines = 'ID|SIS Login ID|"Quiz, last (7)"\n501|"Ada, Countess"|"7,5"\n'
    template = lines.replace("|", between)
    with_emails.staff.export_to("canvas", file, template=template.encode(), lab="01_first")
    cells = ["501", "Ada, Countess", "7,5", "4"]
    last = file.getvalue().decode().splitlines()[-1]
    assert next(csv.reader([last], delimiter=between)) == cells


@pytest.mark.parametrize("template", ["", "a,b\n1,2\n", 'Email\n"x'])
def test_what_no_platform_exports_is_refused(running: Any, template: str) -> None:
    with pytest.raises(ServerError) as error:
        filled(running, "gradescope", template)
    assert error.value.status == 422
    with pytest.raises(ServerError, match="takes no template"):
        filled(running, "csv", CANVAS)


def test_a_template_as_wide_as_its_file_is_refused(running: Any) -> None:
    with pytest.raises(ServerError, match="got 2001 columns"):
        filled(running, "gradescope", "Email" + "," * 2_000 + "\n")


def test_a_column_whose_name_goes_on_and_on_is_passed_over(running: Any) -> None:
    """Looking for a lab in it would take a time that grows with the square of its length."""
    name = "Assignment:" + " " * 100_000 + "\nx"
    assert filled(running, "canvas", f'SIS Login ID,"{name}"\n')[0][:2] == ["SIS Login ID", name]
