"""The tables. Written for SQLite and PostgreSQL alike; times are UNIX seconds.

What is large (notebooks, reports) stands in tables of its own, so that lists and claims never walk
over it. Gradings and marks are only ever added: a submission names the grading that is published,
and its totals are those of that grading and the last mark of each question.

A column's name says its kind (`KINDS`), the same in every table, but for the few that are written
out.
"""

from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    func,
)

metadata = MetaData()

# By name what a column holds; a text is the column that it refers to.
KINDS: dict[str, Any] = {
    name: kind
    for kind, names in (
        (
            Float,
            "at asked_at created_at decided_at expires_at finished_at marked_at not_before"
            " published_at saved_at served_at started_at submitted_at waiting_since"
            " starts ends lease_until factor first_points grace_minutes max_score"
            " penalty_per_day points ratio score share weight",
        ),
        (Integer, "best_id id kills latest_id next_id number pending size_bytes total tries uses"),
        (Boolean, "blank decided held leaderboard open passed solutions waits written"),
        (
            Text,
            "after basis checks comment item items lineitem lineitems members problem reason"
            " report text things why",
        ),
        (LargeBinary, "notebook"),
        (String(8), "key"),
        (String(10), "kind role state"),
        (String(40), "action due late_until opens platform requests_until"),
        (String(64), "alike answer_sha256 digest nonce sha256"),
        (String(100), "lab name section team who"),
        (String(200), "agent email lease_owner question retry_key value words"),
        (String(255), "context"),
        (String(400), "login_key"),
        ("gradings.id", "grading_id"),
        ("people.id", "person_id first_by marked_by written_by"),
        ("submissions.id", "submission_id"),
    )
    for name in names.split()
}

# What is written where nothing is said.
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("agent", "alike", "comment", "email", "problem", "section"), ""),
    **dict.fromkeys(("kills", "pending", "total", "tries"), 0),
    **dict.fromkeys(("not_before", "served_at"), 0.0),
    **dict.fromkeys(("blank", "decided"), False),
    "items": "[]",
}


def _column(name: str, **how: Any) -> Column[Any]:
    kind = KINDS[name]
    return Column(name, ForeignKey(kind) if isinstance(kind, str) else kind, **how)


def keys(*names: str) -> list[Column[Any]]:
    """Return the columns that are the key of a table together."""
    return [_column(name, primary_key=True) for name in names]


def not_null(*names: str) -> list[Column[Any]]:
    """Return columns that hold something in every row."""
    return [_column(name, nullable=False, default=_DEFAULTS.get(name)) for name in names]


def optional(*names: str) -> list[Column[Any]]:
    """Return columns that may be NULL."""
    return [_column(name) for name in names]


def table(name: str, *parts: list[Column[Any]] | Column[Any] | Index) -> Table:
    """Return a table with these columns and indexes."""
    columns = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    return Table(name, metadata, *columns)


# Raised when a table changes shape; `migrations` brings an older database here.
VERSION = 16

# Of `facts`, beside "schema": what signs the cookies of a sign-in under way, and ...
COOKIE_KEY = "cookie_key"
DROP_LOWEST = "drop_lowest"  # how many labs do not count in the course total

# What becomes of a submission. One that is held waits for its lab, whose graders are out of order.
STORED, HELD, GRADING, GRADED, PARKED = "stored", "held", "grading", "graded", "parked"
SHARED = "shared"  # a copy for another member of a team, whose original is not graded yet

facts = table("facts", Column("name", String(40), primary_key=True), not_null("value"))

people = table(
    "people",
    keys("id"),
    Column("login", String(100), nullable=False, unique=True),
    not_null("login_key"),  # the same for all cases of a login
    not_null("name", "role", "created_at", "email", "section"),
    Index("people_by_login_key", "login_key", unique=True),
)
Index("people_by_name", func.lower(people.c.name), people.c.login)

tokens = table(
    "tokens",
    keys("key"),
    Column("person_id", ForeignKey("people.id"), nullable=False, index=True),
    not_null("kind", "digest"),
    optional("expires_at", "created_at"),
    not_null("agent"),  # the browser of a session
)

submissions = table(
    "submissions",
    keys("id"),
    not_null("person_id", "lab", "sha256", "size_bytes"),
    not_null("blank"),  # nothing is written in it: it is no attempt
    not_null("submitted_at", "state"),
    optional("reason"),
    not_null("waiting_since"),
    # How often a grader failed over it while others passed, and how often one was killed.
    not_null("tries", "kills"),
    optional("lease_owner", "lease_until", "finished_at"),
    # What is published of it: a grading, and the totals of that with the marks.
    Column("grading_id", Integer),
    optional("score", "max_score"),
    not_null("pending"),
    # With what handing in asks of all that somebody has, so that it reads none of these rows.
    Index("submissions_by_person", "person_id", "lab", "id", "size_bytes", "blank"),
    Index("submissions_of_person_by_state", "person_id", "state", "id"),
    Index("submissions_of_person_served", "person_id", "finished_at"),
    Index("submissions_by_state", "state", "id"),
    Index("submissions_by_lab", "lab"),
    Index("submissions_by_time", "submitted_at", "lab", "person_id"),
)

# What clients call their submissions, so that they can ask again for a receipt.
retry_keys = table("retry_keys", keys("person_id", "retry_key"), not_null("submission_id"))

notebooks = table("notebooks", keys("submission_id"), not_null("notebook"))

# What a learner sent and could not hand in, and `why` it was refused; not the `drafts` of a batch
# of re-gradings. It is read one at a time, by its key, and lists never name its last column.
learner_drafts = table(
    "learner_drafts",
    keys("person_id", "lab"),
    not_null("sha256", "size_bytes", "saved_at", "why", "notebook"),
)

# Scores are those of the checks alone.
gradings = table(
    "gradings",
    keys("id"),
    not_null("submission_id", "finished_at", "score", "max_score"),
    Index("gradings_by_submission", "submission_id", "id"),
)

reports = table("reports", keys("grading_id"), not_null("report"))

# Which answers of a grading people mark; `alike` is the `marks.alike_digest` of each.
answers = table("answers", keys("grading_id", "question"), not_null("answer_sha256", "alike"))

# Which questions were tried in a grading, and whether all their checks passed.
outcomes = table("outcomes", keys("grading_id", "question"), not_null("passed"))

# How many times the reference's time the right answers to timed questions took.
timings = table("timings", keys("grading_id", "question"), not_null("ratio"))

# The best of each learner by what is published, as far as a ratio is shown: kept by `leaderboard`.
best_times = table(
    "best_times",
    keys("lab", "question", "person_id"),
    not_null("ratio"),
    Index("best_times_by_ratio", "lab", "question", "ratio", "person_id"),
    Index("best_times_by_person", "person_id", "lab"),
)

# What learners are called where others see their places; drawn once.
pseudonyms = table(
    "pseudonyms", keys("person_id"), Column("pseudonym", String(40), nullable=False, unique=True)
)

marks = table(
    "marks",
    keys("id"),
    not_null("submission_id", "question"),
    not_null("answer_sha256"),  # the answer that was read
    optional("points"),  # none takes them back
    not_null("items"),  # of the rubric: JSON, a list of texts
    not_null("comment"),
    optional("marked_by"),
    not_null("marked_at"),
    Index("marks_by_submission", "submission_id", "id"),
)

# One line a person, kept by `claims.line_up`: their oldest waiting submission, and when they were
# served last. The queue's next is the first of this index.
lines = table("lines", keys("person_id"), not_null("served_at"), optional("next_id"))
Index(
    "lines_waiting",
    lines.c.served_at,
    lines.c.next_id,
    lines.c.person_id,
    sqlite_where=lines.c.next_id.is_not(None),
    postgresql_where=lines.c.next_id.is_not(None),
)

# What each person adds to a lab's numbers, how many add each thing, and the answers that people
# mark in the order in which they lie: kept by `standings`. A list is read off an index's edge.
standings = table(
    "standings",
    keys("person_id", "lab"),
    not_null("things"),  # JSON: [kind, question, words] each
    not_null("checks"),  # those of them that the checks of ...
    Column("grading_id", Integer),  # ... this grading said
    optional("latest_id"),  # the submission whose answers lie on the pile
    optional("best_id", "score"),  # the submission that counts, and what lateness left of it
    Index("standings_by_score", "lab", "score", "person_id"),
)

# What the scores of a person's standings come to.
sums = table("sums", keys("person_id"), not_null("score"))

# Everybody's share of what can be had, by the course's rule, rounded; -1 where nothing counts yet.
course_totals = table(
    "course_totals",
    keys("person_id"),
    not_null("share"),
    Index("course_totals_by_share", "share", "person_id"),
)

# Whose is to be worked out anew, and what all were worked out from: one row; see `stale_totals`.
stale_totals = table("stale_totals", keys("person_id"))
totals_basis = table("totals_basis", keys("id"), not_null("basis"))  # JSON

counts = table(
    "counts",
    keys("kind", "lab", "question", "words"),
    not_null("number"),
    Index("counts_by_number", "kind", "lab", "question", "number", "words"),
)

pile = table(
    "pile",
    keys("submission_id", "question"),
    not_null("lab", "written"),
    not_null("waits"),  # it has no mark
    not_null("section", "alike"),
    optional("marked_by"),
    Index("pile_in_order", "lab", "question", "written", "submission_id"),
    Index("pile_waiting", "lab", "question", "written", "waits", "submission_id"),
    Index("pile_alike", "lab", "question", "waits", "alike", "submission_id"),
)

# Who marks what; an empty text stands for every lab, question or section.
assignments = table("assignments", keys("person_id", "lab", "question", "section"))

# Comments that the markers of a question share; an empty item: about the answer as a whole.
kept_comments = table(
    "kept_comments",
    keys("id"),
    Column("digest", String(64), nullable=False, unique=True),  # of all that it says
    not_null("lab", "question"),
    not_null("item"),  # of the rubric
    not_null("text", "uses"),
    Index("kept_comments_by_question", "lab", "question", "uses"),
)

# A sample of answers that two people mark. The first mark is one of `marks` and counts; what it was
# is noted when the second comes, which stays here until staff decide between the two.
second_marks = table(
    "second_marks",
    keys("submission_id", "question"),
    not_null("lab"),
    optional("answer_sha256", "first_points", "first_by", "points"),
    not_null("items", "comment"),
    optional("marked_by"),
    not_null("decided"),
    Index("second_marks_by_question", "lab", "question"),
)

# Who works with whom on a lab; and which submissions are copies of another member's.
team_members = table(
    "team_members",
    keys("lab", "person_id"),
    not_null("team"),
    Index("team_members_by_team", "lab", "team"),
)

team_copies = table(
    "team_copies",
    keys("submission_id"),
    Column("origin_id", ForeignKey("submissions.id"), nullable=False, index=True),
    not_null("team"),
)

# What staff say to learners of a section, or to all; and who has read it.
announcements = table(
    "announcements",
    keys("id"),
    not_null("text", "section", "starts"),
    optional("ends", "written_by"),
    Index("announcements_by_time", "starts"),
)

announcement_reads = table(
    "announcement_reads",
    keys("person_id"),
    Column("announcement_id", ForeignKey("announcements.id"), primary_key=True),
)

# What staff decided about the whole grade of a learner's lab, whatever was handed in.
decisions = table(
    "decisions",
    keys("person_id", "lab"),
    optional("points"),  # none: they are excused
    optional("max_score"),
    not_null("comment", "decided_at"),
)

# How labs make up the course total: a weight for each, or their points where there is none.
weights = table("weights", keys("lab"), not_null("weight"))

# The dates of a lab, as they were given: ISO 8601 with a zone.
lab_rules = table(
    "lab_rules",
    keys("lab"),
    optional("opens", "due", "late_until"),
    not_null("penalty_per_day"),
    Column("attempts", Integer),
    not_null("grace_minutes", "solutions", "leaderboard"),
    optional("requests_until"),
    not_null("held"),
)

extensions = table("extensions", keys("lab", "person_id"), not_null("due"))

# Who has a factor on the time of every lab, above 1.
accommodations = table("accommodations", keys("person_id"), not_null("factor"))

# A batch of re-gradings: what they come to is kept beside them until somebody publishes it.
regrades = table(
    "regrades",
    keys("id"),
    not_null("lab"),
    optional("question"),
    not_null("started_at"),
    optional("published_at"),
    not_null("total"),  # submissions, when it began
)

regradings = table(
    "drafts",
    Column("batch", ForeignKey("regrades.id"), primary_key=True),
    keys("submission_id"),
    not_null("open"),  # it has no grading yet
    Column("grading_id", Integer),
    Column("before", Float),
    optional("score", "max_score", "pending"),
    Index("drafts_by_submission", "submission_id", "open"),
)
Index(
    "drafts_open",
    regradings.c.batch,
    sqlite_where=regradings.c.open,
    postgresql_where=regradings.c.open,
)

# What learners ask about the grade of a question: a thread for each, and what was said in it.
regrade_requests = table(
    "regrade_requests",
    keys("id"),
    not_null("submission_id", "question", "person_id", "lab", "asked_at"),
    not_null("open"),  # it waits for staff
    Index("regrade_requests_by_question", "submission_id", "question", unique=True),
    Index("regrade_requests_by_person", "person_id", "id"),
    Index("regrade_requests_waiting", "open", "id"),
    Index("regrade_requests_by_lab", "lab", "open", "id"),
)

regrade_messages = table(
    "regrade_messages",
    keys("id"),
    Column("request_id", ForeignKey("regrade_requests.id"), nullable=False),
    not_null("person_id", "at", "text"),
    Index("regrade_messages_by_request", "request_id", "id"),
)

# Of learning platforms (LTI 1.3): who somebody is there, in which of its courses; where the grades
# of a lab go; what is still to be sent; and which launches have been used.
lti_people = table(
    "lti_people",
    keys("platform"),
    Column("subject", String(255), primary_key=True),
    not_null("person_id", "context"),
    Index("lti_people_by_person", "person_id", "platform", unique=True),
)

# Where a platform lists the people of a course of its own.
lti_courses = table("lti_courses", keys("platform", "context"), not_null("members"))

# A line item that is empty is to be found or made in `lineitems`.
lti_labs = table("lti_labs", keys("platform", "context", "lab"), not_null("lineitem", "lineitems"))

# Rows are only added and taken away; of several for one learner and lab, what is sent is today's.
lti_outbox = table(
    "lti_outbox",
    keys("id"),
    not_null("platform", "person_id", "lab", "not_before", "tries", "problem"),
    Index("lti_outbox_by_time", "not_before", "id"),
)

lti_nonces = table("lti_nonces", keys("nonce"), not_null("expires_at"))

# Every change of a grade, a date or a role, with the name of whoever made it; only ever added to.
audit_log = table(
    "audit_log",
    keys("id"),
    not_null("at"),
    not_null("who", "action"),  # their login
    Column("subject", String(300), nullable=False),
    Column("before", Text),  # JSON
    optional("after"),
)
