"""A person's part: points and a comment for an answer, kept through a regrade."""

from typing import Any

import pytest

from autograder.records import ManualAnswer, Report, RubricItem
from autograder.service.errors import Refused
from autograder.service.records.marks import (
    Mark,
    answer_digest,
    apply_marks,
    count_pending,
    question_of,
)

ANSWER = ManualAnswer("why", 2.0, (RubricItem(2.0, "Gives a reason."),), "Because.")
REPORT = Report("lab", (), manual=(ANSWER, ManualAnswer("how", 1.0, (), "So."))).with_totals()


def with_mark(report: Report, question: str, points: str, comment: str = "") -> Report:
    answer = question_of(report, question)
    return apply_marks(
        report,
        {
            (question, answer_digest(answer)): Mark.read(
                {"points": points, "comment": comment}, answer
            )
        },
    )


def test_questions_for_a_person_count_from_the_start() -> None:
    report = apply_marks(REPORT, {})
    assert (report.score, report.max_score, count_pending(report)) == (0.0, 3.0, 2)


def test_points_and_comment_enter_the_report_and_its_total() -> None:
    report = with_mark(REPORT, "why", "1.5", " Well said. ")
    assert (report.score, report.max_score, count_pending(report)) == (1.5, 3.0, 1)
    assert report.manual[0].comment == "Well said."
    assert report.manual[1] == REPORT.manual[1]


def test_an_empty_score_takes_it_back() -> None:
    report = with_mark(with_mark(REPORT, "why", "2"), "why", " ")
    assert (report.score, count_pending(report)) == (0.0, 2)


@pytest.mark.parametrize("score", ["-1", "2.5", "nan", "inf", "two", "1e400"])
def test_points_outside_the_question_are_refused(score: str) -> None:
    with pytest.raises(Refused, match="expected 0 to 2"):
        with_mark(REPORT, "why", score)


def test_an_unknown_answer_is_refused() -> None:
    with pytest.raises(Refused, match="no question called"):
        with_mark(REPORT, "which", "1")


def test_a_mark_holds_for_the_same_answer_alone() -> None:
    marks = {
        ("why", answer_digest(ANSWER)): Mark(2.0, "yes"),
        ("how", answer_digest(REPORT.manual[1])): Mark(1.0, ""),
    }
    changed = Report("lab", (), manual=(ANSWER, ManualAnswer("how", 1.0, (), "Otherwise.")))
    kept = apply_marks(changed, marks)
    assert (kept.manual[0].score, kept.manual[0].comment) == (2.0, "yes")
    assert kept.manual[1].score is None
    assert (kept.score, kept.max_score) == (2.0, 3.0)


def test_staff_grade_by_hand_and_learners_do_not(running: Any, browser: Any) -> None:
    learner = running.enroll("Ada")
    number = learner.submit("first", b'{"cells": [{"cell_type": "code", "source": "manual"}]}')[
        "id"
    ]
    running.wait(number)
    path, form = f"/submissions/{number}/manual", {"question": "why", "score": "2"}
    browser.log_in(learner.token)
    assert browser.ask("POST", path, form).status == 403
    browser.log_in(running.staff.token)
    assert browser.ask("POST", path, {**form, "score": "3"}).status == 422
    assert browser.ask("POST", path, form).status == 303
    assert learner.submission(str(number))["score"] == 2.0
    assert browser.ask("POST", f"/submissions/{number}/regrade").status == 303
    running.wait(number)
    assert learner.submission(str(number))["score"] == 2.0
    for none in ("99", "9" * 30):
        path, seen = f"/submissions/{none}/manual", {**form, "seen": "before"}
        assert browser.ask("POST", path, seen).status == 409
