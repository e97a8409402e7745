CREATE TABLE facts (
    name VARCHAR(40) NOT NULL,
    value VARCHAR(200) NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE people (
    id INTEGER NOT NULL,
    login VARCHAR(100) NOT NULL,
    login_key VARCHAR(400) NOT NULL,
    name VARCHAR(100) NOT NULL,
    role VARCHAR(10) NOT NULL,
    created_at FLOAT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (login)
);
CREATE TABLE lines (
    person_id INTEGER NOT NULL,
    served_at FLOAT NOT NULL,
    next_id INTEGER,
    PRIMARY KEY (person_id),
    FOREIGN KEY(person_id) REFERENCES people (id)
);
CREATE TABLE submissions (
    id INTEGER NOT NULL,
    person_id INTEGER NOT NULL,
    lab VARCHAR(100) NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    size_bytes INTEGER NOT NULL,
    submitted_at FLOAT NOT NULL,
    retry_key VARCHAR(200),
    state VARCHAR(10) NOT NULL,
    reason TEXT,
    waiting_since FLOAT NOT NULL,
    tries INTEGER NOT NULL,
    kills INTEGER NOT NULL,
    lease_owner VARCHAR(200),
    lease_until FLOAT,
    finished_at FLOAT,
    grading_id INTEGER,
    score FLOAT,
    max_score FLOAT,
    pending INTEGER NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(person_id) REFERENCES people (id)
);
CREATE TABLE tokens (
    "key" VARCHAR(8) NOT NULL,
    person_id INTEGER NOT NULL,
    kind VARCHAR(10) NOT NULL,
    digest VARCHAR(64) NOT NULL,
    expires_at FLOAT,
    PRIMARY KEY ("key"),
    FOREIGN KEY(person_id) REFERENCES people (id)
);
CREATE TABLE gradings (
    id INTEGER NOT NULL,
    submission_id INTEGER NOT NULL,
    finished_at FLOAT NOT NULL,
    score FLOAT NOT NULL,
    max_score FLOAT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(submission_id) REFERENCES submissions (id)
);
CREATE TABLE marks (
    id INTEGER NOT NULL,
    submission_id INTEGER NOT NULL,
    question VARCHAR(200) NOT NULL,
    answer_sha256 VARCHAR(64) NOT NULL,
    points FLOAT,
    comment TEXT NOT NULL,
    marked_by INTEGER,
    marked_at FLOAT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(submission_id) REFERENCES submissions (id),
    FOREIGN KEY(marked_by) REFERENCES people (id)
);
CREATE TABLE notebooks (
    submission_id INTEGER NOT NULL,
    notebook BLOB NOT NULL,
    PRIMARY KEY (submission_id),
    FOREIGN KEY(submission_id) REFERENCES submissions (id)
);
CREATE TABLE reports (
    grading_id INTEGER NOT NULL,
    report TEXT NOT NULL,
    PRIMARY KEY (grading_id),
    FOREIGN KEY(grading_id) REFERENCES gradings (id)
);
CREATE UNIQUE INDEX people_by_login_key ON people (login_key);
CREATE INDEX lines_waiting ON lines (served_at, next_id, person_id) WHERE next_id IS NOT NULL;
CREATE INDEX submissions_by_lab ON submissions (lab);
CREATE INDEX submissions_by_person ON submissions (person_id, lab, id);
CREATE UNIQUE INDEX submissions_by_retry_key ON submissions (person_id, retry_key);
CREATE INDEX submissions_by_state ON submissions (state, id);
CREATE INDEX submissions_of_person_by_state ON submissions (person_id, state, id);
CREATE INDEX submissions_of_person_served ON submissions (person_id, finished_at);
CREATE INDEX ix_tokens_person_id ON tokens (person_id);
CREATE INDEX gradings_by_submission ON gradings (submission_id, id);
CREATE INDEX marks_by_submission ON marks (submission_id, id);
