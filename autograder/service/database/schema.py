"""The tables. Written for SQLite and PostgreSQL alike; times are UNIX seconds.

What is large (notebooks, reports) stands in tables of its own, so that lists and claims never walk
over it. Gradings and marks are only ever added: a submission names the grading that is published,
and its totals are those of that grading and the last mark of each question.
"""

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

# Raised when a table changes shape; `migrations` brings an older database here.
VERSION = 16

# Of `facts`, beside "schema": what signs the cookies of a sign-in under way, and ...
COOKIE_KEY = "cookie_key"
DROP_LOWEST = "drop_lowest"  # how many labs do not count in the course total

# What becomes of a submission. One that is held waits for its lab, whose graders are out of order.
STORED, HELD, GRADING, GRADED, PARKED = "stored", "held", "grading", "graded", "parked"
SHARED = "shared"  # a copy for another member of a team, whose original is not graded yet

metadata = MetaData()

facts = Table(
    "facts",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", String(200), nullable=False),
)

people = Table(
    "people",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("login", String(100), nullable=False, unique=True),
    Column("login_key", String(400), nullable=False),  # the same for all cases of a login
    Column("name", String(100), nullable=False),
    Column("role", String(10), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("email", String(200), nullable=False, default=""),
    Column("section", String(100), nullable=False, default=""),
    Index("people_by_login_key", "login_key", unique=True),
)

Index("people_by_name", func.lower(people.c.name), people.c.login)

tokens = Table(
    "tokens",
    metadata,
    Column("key", String(8), primary_key=True),
    Column("person_id", ForeignKey("people.id"), nullable=False, index=True),
    Column("kind", String(10), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("expires_at", Float),
    Column("created_at", Float),
    Column("agent", String(200), nullable=False, default=""),  # the browser of a session
)

submissions = Table(
    "submissions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("person_id", ForeignKey("people.id"), nullable=False),
    Column("lab", String(100), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", Integer, nullable=False),
    # Nothing is written in it: it is no attempt.
    Column("blank", Boolean, nullable=False, default=False),
    Column("submitted_at", Float, nullable=False),
    Column("state", String(10), nullable=False),
    Column("reason", Text),
    Column("waiting_since", Float, nullable=False),
    # How often a grader failed over it while others passed, and how often one was killed.
    Column("tries", Integer, nullable=False, default=0),
    Column("kills", Integer, nullable=False, default=0),
    Column("lease_owner", String(200)),
    Column("lease_until", Float),
    Column("finished_at", Float),
    # What is published of it: a grading, and the totals of that with the marks.
    Column("grading_id", Integer),
    Column("score", Float),
    Column("max_score", Float),
    Column("pending", Integer, nullable=False, default=0),
    # With what handing in asks of all that somebody has, so that it reads none of these rows.
    Index("submissions_by_person", "person_id", "lab", "id", "size_bytes", "blank"),
    Index("submissions_of_person_by_state", "person_id", "state", "id"),
    Index("submissions_of_person_served", "person_id", "finished_at"),
    Index("submissions_by_state", "state", "id"),
    Index("submissions_by_lab", "lab"),
    Index("submissions_by_time", "submitted_at", "lab", "person_id"),
)

# What clients call their submissions, so that they can ask again for a receipt.
retry_keys = Table(
    "retry_keys",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("retry_key", String(200), primary_key=True),
    Column("submission_id", ForeignKey("submissions.id"), nullable=False),
)

notebooks = Table(
    "notebooks",
    metadata,
    Column("submission_id", ForeignKey("submissions.id"), primary_key=True),
    Column("notebook", LargeBinary, nullable=False),
)

# What a learner sent and could not hand in; not the `drafts` of a batch of re-gradings. It is read
# one at a time, by its key, and lists never name its last column.
learner_drafts = Table(
    "learner_drafts",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("lab", String(100), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("saved_at", Float, nullable=False),
    Column("why", Text, nullable=False),  # it was refused
    Column("notebook", LargeBinary, nullable=False),
)

gradings = Table(
    "gradings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("submission_id", ForeignKey("submissions.id"), nullable=False),
    Column("finished_at", Float, nullable=False),
    Column("score", Float, nullable=False),  # of the checks alone
    Column("max_score", Float, nullable=False),
    Index("gradings_by_submission", "submission_id", "id"),
)

reports = Table(
    "reports",
    metadata,
    Column("grading_id", ForeignKey("gradings.id"), primary_key=True),
    Column("report", Text, nullable=False),
)

# Which answers of a grading people mark.
answers = Table(
    "answers",
    metadata,
    Column("grading_id", ForeignKey("gradings.id"), primary_key=True),
    Column("question", String(200), primary_key=True),
    Column("answer_sha256", String(64), nullable=False),
    Column("alike", String(64), nullable=False, default=""),  # `marks.alike_digest` of it
)

# Which questions were tried in a grading, and whether all their checks passed.
outcomes = Table(
    "outcomes",
    metadata,
    Column("grading_id", ForeignKey("gradings.id"), primary_key=True),
    Column("question", String(200), primary_key=True),
    Column("passed", Boolean, nullable=False),
)

# How many times the reference's time the right answers to timed questions took.
timings = Table(
    "timings",
    metadata,
    Column("grading_id", ForeignKey("gradings.id"), primary_key=True),
    Column("question", String(200), primary_key=True),
    Column("ratio", Float, nullable=False),
)

# The best of each learner by what is published, as far as a ratio is shown: kept by `leaderboard`.
best_times = Table(
    "best_times",
    metadata,
    Column("lab", String(100), primary_key=True),
    Column("question", String(200), primary_key=True),
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("ratio", Float, nullable=False),
    Index("best_times_by_ratio", "lab", "question", "ratio", "person_id"),
    Index("best_times_by_person", "person_id", "lab"),
)

# What learners are called where others see their places; drawn once.
pseudonyms = Table(
    "pseudonyms",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("pseudonym", String(40), nullable=False, unique=True),
)

marks = Table(
    "marks",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("submission_id", ForeignKey("submissions.id"), nullable=False),
    Column("question", String(200), nullable=False),
    Column("answer_sha256", String(64), nullable=False),  # the answer that was read
    Column("points", Float),  # none takes them back
    Column("items", Text, nullable=False, default="[]"),  # of the rubric: JSON, a list of texts
    Column("comment", Text, nullable=False),
    Column("marked_by", ForeignKey("people.id")),
    Column("marked_at", Float, nullable=False),
    Index("marks_by_submission", "submission_id", "id"),
)

# One line a person, kept by `claims.line_up`: their oldest waiting submission, and when they were
# served last. The queue's next is the first of this index.
lines = Table(
    "lines",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("served_at", Float, nullable=False, default=0.0),
    Column("next_id", Integer),
)
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
standings = Table(
    "standings",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("lab", String(100), primary_key=True),
    Column("things", Text, nullable=False),  # JSON: [kind, question, words] each
    Column("checks", Text, nullable=False),  # those of them that the checks of ...
    Column("grading_id", Integer),  # ... this grading said
    Column("latest_id", Integer),  # the submission whose answers lie on the pile
    Column("best_id", Integer),  # the submission that counts, and ...
    Column("score", Float),  # ... what counts of it, after what lateness cost
    Index("standings_by_score", "lab", "score", "person_id"),
)

# What the scores of a person's standings come to.
sums = Table(
    "sums",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("score", Float, nullable=False),
)

# Everybody's share of what can be had, by the course's rule, rounded; -1 where nothing counts yet.
course_totals = Table(
    "course_totals",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("share", Float, nullable=False),
    Index("course_totals_by_share", "share", "person_id"),
)

# Whose is to be worked out anew, and what all were worked out from: one row; see `stale_totals`.
stale_totals = Table(
    "stale_totals",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
)

totals_basis = Table(
    "totals_basis",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("basis", Text, nullable=False),  # JSON
)

counts = Table(
    "counts",
    metadata,
    Column("kind", String(10), primary_key=True),
    Column("lab", String(100), primary_key=True),
    Column("question", String(200), primary_key=True),
    Column("words", String(200), primary_key=True),
    Column("number", Integer, nullable=False),
    Index("counts_by_number", "kind", "lab", "question", "number", "words"),
)

pile = Table(
    "pile",
    metadata,
    Column("submission_id", ForeignKey("submissions.id"), primary_key=True),
    Column("question", String(200), primary_key=True),
    Column("lab", String(100), nullable=False),
    Column("written", Boolean, nullable=False),
    Column("waits", Boolean, nullable=False),  # it has no mark
    Column("section", String(100), nullable=False, default=""),
    Column("alike", String(64), nullable=False, default=""),
    Column("marked_by", ForeignKey("people.id")),
    Index("pile_in_order", "lab", "question", "written", "submission_id"),
    Index("pile_waiting", "lab", "question", "written", "waits", "submission_id"),
    Index("pile_alike", "lab", "question", "waits", "alike", "submission_id"),
)

# Who marks what; an empty text stands for every lab, question or section.
assignments = Table(
    "assignments",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("lab", String(100), primary_key=True),
    Column("question", String(200), primary_key=True),
    Column("section", String(100), primary_key=True),
)

# Comments that the markers of a question share; an empty item: about the answer as a whole.
kept_comments = Table(
    "kept_comments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),  # of all that it says
    Column("lab", String(100), nullable=False),
    Column("question", String(200), nullable=False),
    Column("item", Text, nullable=False),  # of the rubric
    Column("text", Text, nullable=False),
    Column("uses", Integer, nullable=False),
    Index("kept_comments_by_question", "lab", "question", "uses"),
)

# A sample of answers that two people mark. The first mark is one of `marks` and counts; what it was
# is noted when the second comes, which stays here until staff decide between the two.
second_marks = Table(
    "second_marks",
    metadata,
    Column("submission_id", ForeignKey("submissions.id"), primary_key=True),
    Column("question", String(200), primary_key=True),
    Column("lab", String(100), nullable=False),
    Column("answer_sha256", String(64)),
    Column("first_points", Float),
    Column("first_by", ForeignKey("people.id")),
    Column("points", Float),
    Column("items", Text, nullable=False, default="[]"),
    Column("comment", Text, nullable=False, default=""),
    Column("marked_by", ForeignKey("people.id")),
    Column("decided", Boolean, nullable=False, default=False),
    Index("second_marks_by_question", "lab", "question"),
)

# Who works with whom on a lab; and which submissions are copies of another member's.
team_members = Table(
    "team_members",
    metadata,
    Column("lab", String(100), primary_key=True),
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("team", String(100), nullable=False),
    Index("team_members_by_team", "lab", "team"),
)

team_copies = Table(
    "team_copies",
    metadata,
    Column("submission_id", ForeignKey("submissions.id"), primary_key=True),
    Column("origin_id", ForeignKey("submissions.id"), nullable=False, index=True),
    Column("team", String(100), nullable=False),
)

# What staff say to learners of a section, or to all; and who has read it.
announcements = Table(
    "announcements",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("section", String(100), nullable=False),
    Column("starts", Float, nullable=False),
    Column("ends", Float),
    Column("written_by", ForeignKey("people.id")),
    Index("announcements_by_time", "starts"),
)

announcement_reads = Table(
    "announcement_reads",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("announcement_id", ForeignKey("announcements.id"), primary_key=True),
)

# What staff decided about the whole grade of a learner's lab, whatever was handed in.
decisions = Table(
    "decisions",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("lab", String(100), primary_key=True),
    Column("points", Float),  # none: they are excused
    Column("max_score", Float),
    Column("comment", Text, nullable=False),
    Column("decided_at", Float, nullable=False),
)

# How labs make up the course total: a weight for each, or their points where there is none.
weights = Table(
    "weights",
    metadata,
    Column("lab", String(100), primary_key=True),
    Column("weight", Float, nullable=False),
)

# The dates of a lab, as they were given: ISO 8601 with a zone.
lab_rules = Table(
    "lab_rules",
    metadata,
    Column("lab", String(100), primary_key=True),
    Column("opens", String(40)),
    Column("due", String(40)),
    Column("late_until", String(40)),
    Column("penalty_per_day", Float, nullable=False),
    Column("attempts", Integer),
    Column("grace_minutes", Float, nullable=False),
    Column("solutions", Boolean, nullable=False),
    Column("leaderboard", Boolean, nullable=False),
    Column("requests_until", String(40)),
    Column("held", Boolean, nullable=False),
)

extensions = Table(
    "extensions",
    metadata,
    Column("lab", String(100), primary_key=True),
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("due", String(40), nullable=False),
)

# Who has a factor on the time of every lab, above 1.
accommodations = Table(
    "accommodations",
    metadata,
    Column("person_id", ForeignKey("people.id"), primary_key=True),
    Column("factor", Float, nullable=False),
)

# A batch of re-gradings: what they come to is kept beside them until somebody publishes it.
regrades = Table(
    "regrades",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("lab", String(100), nullable=False),
    Column("question", String(200)),
    Column("started_at", Float, nullable=False),
    Column("published_at", Float),
    Column("total", Integer, nullable=False, default=0),  # submissions, when it began
)

regradings = Table(
    "drafts",
    metadata,
    Column("batch", ForeignKey("regrades.id"), primary_key=True),
    Column("submission_id", ForeignKey("submissions.id"), primary_key=True),
    Column("open", Boolean, nullable=False),  # it has no grading yet
    Column("grading_id", Integer),
    Column("before", Float),
    Column("score", Float),
    Column("max_score", Float),
    Column("pending", Integer),
    Index("drafts_by_submission", "submission_id", "open"),
)
Index(
    "drafts_open",
    regradings.c.batch,
    sqlite_where=regradings.c.open,
    postgresql_where=regradings.c.open,
)

# What learners ask about the grade of a question: a thread for each, and what was said in it.
regrade_requests = Table(
    "regrade_requests",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("submission_id", ForeignKey("submissions.id"), nullable=False),
    Column("question", String(200), nullable=False),
    Column("person_id", ForeignKey("people.id"), nullable=False),
    Column("lab", String(100), nullable=False),
    Column("asked_at", Float, nullable=False),
    Column("open", Boolean, nullable=False),  # it waits for staff
    Index("regrade_requests_by_question", "submission_id", "question", unique=True),
    Index("regrade_requests_by_person", "person_id", "id"),
    Index("regrade_requests_waiting", "open", "id"),
    Index("regrade_requests_by_lab", "lab", "open", "id"),
)

regrade_messages = Table(
    "regrade_messages",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("request_id", ForeignKey("regrade_requests.id"), nullable=False),
    Column("person_id", ForeignKey("people.id"), nullable=False),
    Column("at", Float, nullable=False),
    Column("text", Text, nullable=False),
    Index("regrade_messages_by_request", "request_id", "id"),
)

# Of learning platforms (LTI 1.3): who somebody is there, in which of its courses; where the grades
# of a lab go; what is still to be sent; and which launches have been used.
lti_people = Table(
    "lti_people",
    metadata,
    Column("platform", String(40), primary_key=True),
    Column("subject", String(255), primary_key=True),
    Column("person_id", ForeignKey("people.id"), nullable=False),
    Column("context", String(255), nullable=False),
    Index("lti_people_by_person", "person_id", "platform", unique=True),
)

# Where a platform lists the people of a course of its own.
lti_courses = Table(
    "lti_courses",
    metadata,
    Column("platform", String(40), primary_key=True),
    Column("context", String(255), primary_key=True),
    Column("members", Text, nullable=False),
)

lti_labs = Table(
    "lti_labs",
    metadata,
    Column("platform", String(40), primary_key=True),
    Column("context", String(255), primary_key=True),
    Column("lab", String(100), primary_key=True),
    Column("lineitem", Text, nullable=False),  # empty: to be found or made in ...
    Column("lineitems", Text, nullable=False),
)

# Rows are only added and taken away; of several for one learner and lab, what is sent is today's.
lti_outbox = Table(
    "lti_outbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("platform", String(40), nullable=False),
    Column("person_id", ForeignKey("people.id"), nullable=False),
    Column("lab", String(100), nullable=False),
    Column("not_before", Float, nullable=False, default=0.0),
    Column("tries", Integer, nullable=False, default=0),
    Column("problem", Text, nullable=False, default=""),
    Index("lti_outbox_by_time", "not_before", "id"),
)

lti_nonces = Table(
    "lti_nonces",
    metadata,
    Column("nonce", String(64), primary_key=True),
    Column("expires_at", Float, nullable=False),
)

# Every change of a grade, a date or a role, with the name of whoever made it; only ever added to.
audit_log = Table(
    "audit_log",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("who", String(100), nullable=False),  # their login
    Column("action", String(40), nullable=False),
    Column("subject", String(300), nullable=False),
    Column("before", Text),  # JSON
    Column("after", Text),
)
