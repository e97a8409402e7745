"""What holds for whom, as the database keeps it: each lab's rules, and who has more time."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields

import sqlalchemy as sa

from autograder.service.database.schema import accommodations, extensions, lab_rules
from autograder.service.records.rules import Rules
from autograder.service.times import moment


@dataclass(frozen=True)
class Calendar:
    """What holds for whom: the rules by lab, later due dates by (lab, person), factors on time."""

    rules: Mapping[str, Rules]
    later: Mapping[tuple[str, int], str]
    factors: Mapping[int, float]

    def of(self, lab: str, person_id: int) -> Rules:
        """Return the rules that hold for one learner."""
        rules, due = self.rules.get(lab, Rules()), self.later.get((lab, person_id))
        if person_id in self.factors:
            dues = (due, rules.stretched_due(self.factors[person_id]))
            due = max(filter(None, dues), key=moment, default=None)
        return rules.extend_to(due)

    def still_open(self, lab: str, now: float) -> list[int]:
        """Return for whom a lab that is over at `now` is not: they have more time."""
        alike = defaultdict[tuple[str | None, float | None], list[int]](list)
        for person in {person for _, person in self.later} | set(self.factors):
            alike[self.later.get((lab, person)), self.factors.get(person)].append(person)
        groups = (group for group in alike.values() if not self.of(lab, group[0]).is_over(now))
        return sorted(person for group in groups for person in group)

    def apply_lateness(self, lab: str, person_id: int, score: float, submitted_at: float) -> float:
        """Return what counts of a score."""
        rules = self.of(lab, person_id)
        return rules.apply_lateness(score, rules.late_days(submitted_at)) or 0.0


def calendar(connection: sa.Connection, *person_ids: int) -> Calendar:
    """Return the rules and the extensions of everybody, or of these people."""
    rules = {row[0]: Rules(*row[1:]) for row in connection.execute(_RULES)}
    chosen = sa.select(extensions.c.lab, extensions.c.person_id, extensions.c.due)
    factors = sa.select(accommodations.c.person_id, accommodations.c.factor)
    if person_ids:
        chosen = chosen.where(extensions.c.person_id.in_(person_ids))
        factors = factors.where(accommodations.c.person_id.in_(person_ids))
    dues = {(row[0], row[1]): row[2] for row in connection.execute(chosen)}
    return Calendar(rules, dues, {row[0]: row[1] for row in connection.execute(factors)})


_RULES = sa.select(lab_rules.c.lab, *(lab_rules.c[field.name] for field in fields(Rules)))
HELD_LABS = sa.select(lab_rules.c.lab).where(lab_rules.c.held)
