"""The course total of a learner: what counts of each lab, by the course's rule and their dates."""

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from autograder.service.records.calendar import Calendar, calendar
from autograder.service.records.grades.course_rule import CourseRule, Total, course_rule
from autograder.service.records.standings.standings import lab_points
from autograder.service.records.submissions.submissions import Entry, Submissions


@dataclass(frozen=True)
class Reckoning:
    """All that a total takes: the rule, the dates, what each lab gives at most, and the time.

    `veiled`: for learners' eyes; labs whose grades are held back are left out throughout.
    """

    rule: CourseRule
    dates: Calendar
    points: Mapping[str, float]
    now: float
    veiled: bool

    @classmethod
    def of(cls, submissions: Submissions) -> "Reckoning":
        """Return what holds now, for those who see these submissions."""
        with submissions.database.read() as connection:
            return cls.by(connection, submissions.clock(), submissions.veiled)

    @classmethod
    def by(cls, connection: sa.Connection, now: float, veiled: bool = False) -> "Reckoning":
        """Return what holds at `now` for staff, or `veiled`."""
        rule, points = course_rule(connection), lab_points(connection)
        return cls(rule, calendar(connection), points, now, veiled)

    def total(self, person_id: int, labs: Mapping[str, Entry]) -> Total:
        """Return the total of what counts of each lab that somebody has handed in."""
        grades = []
        for lab in sorted({*labs, *self.points}):
            rules = self.dates.of(lab, person_id)
            entry = labs.get(lab)
            if self.veiled and rules.held:
                continue
            if entry is None and rules.is_over(self.now):
                grades.append((lab, 0.0, self.points[lab]))
            elif entry is not None and entry.score is not None:  # an excused one has none
                grades.append((lab, entry.score, entry.max_score or 0.0))
        return self.rule.total(grades)
