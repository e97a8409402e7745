CREATE TABLE facts (
    name VARCHAR(40) NOT NULL,
    value VARCHAR(200) NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE people (
    id INTEGER NOT NULL,
    name VARCHAR(100) NOT NULL,
    role VARCHAR(10) NOT NULL,
    created_at FLOAT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
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
CREATE INDEX ix_tokens_person_id ON tokens (person_id);
CREATE TABLE submissions (
    id INTEGER NOT NULL,
    person_id INTEGER NOT NULL,
    lab VARCHAR(100) NOT NULL,
    notebook BLOB NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    submitted_at FLOAT NOT NULL,
    state VARCHAR(10) NOT NULL,
    reason TEXT,
    attempts INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    lease_owner VARCHAR(200),
    lease_until FLOAT,
    finished_at FLOAT,
    score FLOAT,
    max_score FLOAT,
    report TEXT,
    PRIMARY KEY (id),
    FOREIGN KEY(person_id) REFERENCES people (id)
);
CREATE INDEX submissions_by_person ON submissions (person_id, id);
CREATE INDEX submissions_by_state ON submissions (state, id);
