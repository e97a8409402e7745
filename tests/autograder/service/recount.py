"""What is kept up made anew from the submissions: what it ought to be."""

import sqlalchemy as sa

from autograder.service.database.schema import (
    best_times,
    counts,
    decisions,
    pile,
    standings,
    submissions,
    sums,
)
from autograder.service.records.standings.standings import restand_lab


def recount(connection: sa.Connection) -> None:
    """Make everything anew from the submissions."""
    for table in (best_times, counts, pile, standings, sums):
        connection.execute(table.delete())
    labs = sa.select(submissions.c.lab).union(sa.select(decisions.c.lab))
    for lab in list(connection.scalars(labs)):
        restand_lab(connection, lab)
