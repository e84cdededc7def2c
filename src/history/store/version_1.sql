-- What became of every manifest of every commit. Times are UTC, to the millisecond.
-- Begin with: SELECT * FROM history LIMIT 20;

-- Who writes commits. Its own table, so that looking for an author does not look through all commits.
CREATE TABLE people (
    number INTEGER PRIMARY KEY,
    name   TEXT NOT NULL,
    email  TEXT NOT NULL,
    UNIQUE (name, email)
);

CREATE TABLE commits (
    "commit"  TEXT PRIMARY KEY,   -- 40 hexadecimal digits
    subject   TEXT NOT NULL,
    author    INTEGER NOT NULL REFERENCES people,
    authored  TEXT NOT NULL,
    committed TEXT NOT NULL,
    parents   TEXT NOT NULL,      -- ids, a space in between
    trailers  TEXT NOT NULL       -- JSON: [["Belay-Allow-Prune", "3"]]
) WITHOUT ROWID;
CREATE INDEX commits_by_author ON commits (author);

-- Which commits a source has had, and with which head each came. One that is not its own head was skipped for it.
CREATE TABLE arrivals (
    source   TEXT NOT NULL,
    "commit" TEXT NOT NULL,
    head     TEXT NOT NULL,
    at       TEXT NOT NULL,
    PRIMARY KEY ("commit", source)
) WITHOUT ROWID;

-- One row each time a source turned to another head.
CREATE TABLE plans (
    number INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    head   TEXT NOT NULL,
    begun  TEXT NOT NULL,
    ended  TEXT                   -- when the last of its records had ended for the first time
);
CREATE INDEX plans_by_source ON plans (source, number);
CREATE INDEX plans_ended ON plans (source, number) WHERE ended IS NOT NULL;

CREATE TABLE records (
    number           INTEGER PRIMARY KEY AUTOINCREMENT,
    plan             INTEGER NOT NULL REFERENCES plans,
    source           TEXT NOT NULL,
    "commit"         TEXT NOT NULL,
    "group"          TEXT NOT NULL,
    kind             TEXT NOT NULL,
    namespace        TEXT,
    name             TEXT NOT NULL,
    path             TEXT,
    line             INTEGER,
    "column"         INTEGER,
    "trigger"        TEXT NOT NULL,
    who              TEXT,         -- whose hand it was, for the triggers that are one's
    outcome          TEXT NOT NULL,
    reason           TEXT,         -- one word for programs
    message          TEXT,         -- one sentence for people
    manifest_hash    TEXT,
    rolls_out        INTEGER NOT NULL,
    revision         INTEGER,
    back_to          TEXT,
    back_to_revision INTEGER,
    started          TEXT NOT NULL,
    ended            TEXT
);
CREATE INDEX records_by_start ON records (started);
CREATE INDEX records_by_source ON records (source, started);
CREATE INDEX records_by_commit ON records ("commit", started);
CREATE INDEX records_by_name ON records (name, started);
CREATE INDEX records_by_namespace ON records (namespace, started);
CREATE INDEX records_by_plan ON records (plan, name);
CREATE INDEX records_in_trouble ON records (started)
    WHERE outcome IN ('failed', 'rolled-back', 'rollback-failed', 'rejected', 'held');
CREATE INDEX records_open ON records (source) WHERE ended IS NULL;
CREATE INDEX records_open_by_plan ON records (plan) WHERE ended IS NULL;
CREATE INDEX records_rolled_out ON records (source, name, started) WHERE rolls_out = 1;
CREATE INDEX records_back_to ON records (back_to) WHERE back_to IS NOT NULL;

CREATE TABLE steps (
    record INTEGER NOT NULL REFERENCES records ON DELETE CASCADE,
    number INTEGER NOT NULL,
    at     TEXT NOT NULL,
    step   TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (record, number)
) WITHOUT ROWID;

CREATE TABLE complaints (
    record   INTEGER NOT NULL REFERENCES records ON DELETE CASCADE,
    number   INTEGER NOT NULL,
    path     TEXT NOT NULL,
    line     INTEGER NOT NULL,
    "column" INTEGER NOT NULL,
    object   TEXT,                -- JSON
    message  TEXT NOT NULL,
    hint     TEXT,
    PRIMARY KEY (record, number)
) WITHOUT ROWID;

CREATE TABLE evidence (
    record   INTEGER PRIMARY KEY REFERENCES records ON DELETE CASCADE,
    evidence TEXT NOT NULL        -- JSON
);

-- Pod templates as they were applied, each once, for the way back when Git is away.
CREATE TABLE templates (
    hash     TEXT PRIMARY KEY,    -- SHA-256 of the text
    template TEXT NOT NULL        -- JSON
);

CREATE TABLE applied (
    number    INTEGER PRIMARY KEY,
    source    TEXT NOT NULL,
    "group"   TEXT NOT NULL,
    kind      TEXT NOT NULL,
    namespace TEXT,
    name      TEXT NOT NULL,
    "commit"  TEXT NOT NULL,
    template  TEXT NOT NULL REFERENCES templates,
    at        TEXT NOT NULL
);
CREATE INDEX applied_by_name ON applied (source, name, number);
CREATE INDEX applied_by_template ON applied (template);
CREATE INDEX applied_by_commit ON applied ("commit");

-- For people: what happened, newest first.
CREATE VIEW history AS
SELECT records.started,
       records.source,
       records.kind || ' ' || coalesce(records.namespace || '/', '') || records.name AS object,
       substr(records."commit", 1, 7) AS "commit",
       commits.subject,
       people.name AS author,
       records.outcome,
       coalesce(records.message, '') AS why,
       CAST (round((julianday(records.ended) - julianday(records.started)) * 86400) AS INTEGER) AS seconds,
       records.number AS record
  FROM records
  LEFT JOIN commits ON commits."commit" = records."commit"
  LEFT JOIN people ON people.number = commits.author
 ORDER BY records.started DESC, records.number DESC;

-- For people: each step of each record, in order.
CREATE VIEW story AS
SELECT steps.record,
       records.kind || ' ' || coalesce(records.namespace || '/', '') || records.name AS object,
       steps.at,
       steps.step,
       steps.detail
  FROM steps
  JOIN records ON records.number = steps.record
 ORDER BY steps.record, steps.number;

-- For people: what is under way.
CREATE VIEW under_way AS
SELECT records.started,
       records.source,
       records.kind || ' ' || coalesce(records.namespace || '/', '') || records.name AS object,
       substr(records."commit", 1, 7) AS "commit",
       records.outcome,
       records.number AS record
  FROM records
 WHERE records.ended IS NULL
 ORDER BY records.started, records.number;
