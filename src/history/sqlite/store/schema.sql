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

-- Which commits a source has had, and with which head each came. One that is not its own head was skipped for it,
-- or is older and was charged with something when that head came.
CREATE TABLE arrivals (
    source   TEXT NOT NULL,
    "commit" TEXT NOT NULL,
    head     TEXT NOT NULL,
    at       TEXT NOT NULL,
    PRIMARY KEY ("commit", source)
) WITHOUT ROWID;

-- One row each time a source turned to another head. One whose head is empty holds the records that were rebuilt after the
-- history was lost.
CREATE TABLE plans (
    number INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    head   TEXT NOT NULL,
    begun  TEXT NOT NULL,
    ended  TEXT,                  -- when the last of its records had ended for the first time
    is_first INTEGER NOT NULL,    -- whether it is the first with a head of its source; older ones may be forgotten
    brings_back INTEGER NOT NULL DEFAULT 0, -- whether it rolled out what is charged to earlier commits, in whose lines that counts
    forgotten INTEGER NOT NULL DEFAULT 0    -- whether records of the head that counted in its line are forgotten
);
CREATE INDEX plans_by_source ON plans (source, number);
CREATE INDEX plans_by_head ON plans (source, head, number);
CREATE INDEX plans_ended ON plans (source, number) WHERE ended IS NOT NULL;

CREATE TABLE records (
    number           INTEGER PRIMARY KEY AUTOINCREMENT,
    plan             INTEGER NOT NULL REFERENCES plans, -- under which it was written
    timeline_plan    INTEGER REFERENCES plans, -- in whose line of the timeline it counts; NULL for what was rebuilt
    source           TEXT NOT NULL,
    "commit"         TEXT NOT NULL,
    "group"          TEXT NOT NULL,
    kind             TEXT NOT NULL,
    namespace        TEXT,
    name             TEXT NOT NULL,
    path             TEXT,
    line             INTEGER,
    "column"         INTEGER,
    rendered_by      TEXT,         -- the kustomization or the chart, as a path
    "trigger"        TEXT NOT NULL,
    who              TEXT,         -- who or what set it off, for the triggers that name one
    named            TEXT,         -- the object that set it off, for the triggers that name one: JSON
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
CREATE INDEX records_by_commit ON records ("commit", source, timeline_plan);
CREATE INDEX records_by_name ON records (name, started);
CREATE INDEX records_by_namespace ON records (namespace, started);
CREATE INDEX records_by_plan ON records (plan, name);
CREATE INDEX records_by_timeline_plan ON records (timeline_plan);
CREATE INDEX records_in_trouble ON records (started)
    WHERE outcome IN ('failed', 'rolled-back', 'rollback-failed', 'rejected', 'held');
CREATE INDEX records_open ON records (source) WHERE ended IS NULL;
CREATE INDEX records_open_by_plan ON records (plan) WHERE ended IS NULL;
-- The last good revision is the last by the order of writing: a clock may have been set back.
CREATE INDEX records_rolled_out ON records (source, name, number) WHERE rolls_out = 1;
CREATE INDEX records_back_to ON records (back_to) WHERE back_to IS NOT NULL;

-- Of what was taken up before this time, some is forgotten. No row while nothing is.
CREATE TABLE forgotten (
    number INTEGER PRIMARY KEY CHECK (number = 1),
    before TEXT NOT NULL
);

CREATE TABLE steps (
    record INTEGER NOT NULL REFERENCES records ON DELETE CASCADE,
    number INTEGER NOT NULL,
    at     TEXT NOT NULL,
    step   TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (record, number)
) WITHOUT ROWID;

-- From where the rollout that a write began is judged, so that a daemon that starts again judges it by the same measure.
CREATE TABLE baselines (
    record      INTEGER NOT NULL REFERENCES records ON DELETE CASCADE,
    step        TEXT NOT NULL,    -- of which write: applied, went-back
    at          TEXT NOT NULL,
    generation  INTEGER NOT NULL, -- that the write produced
    uid         TEXT NOT NULL,    -- of the object; empty where it is not known
    old_failure TEXT,             -- the mark of a failure that stood there already
    only_size   INTEGER NOT NULL, -- whether the write changed the number of pods alone
    PRIMARY KEY (record, step)
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
    excerpt  TEXT,                -- the lines that it is about: JSON
    also     TEXT,                -- the other places that have a part in it: JSON
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

-- The pod template that a workload had when a rollout took its place while no good one was known: what is left to go back to
-- where neither the cluster nor Git has another. Goes when the workload is seen complete.
CREATE TABLE fallback_templates (
    source    TEXT NOT NULL,
    "group"   TEXT NOT NULL,
    kind      TEXT NOT NULL,
    namespace TEXT NOT NULL,      -- empty where there is none
    name      TEXT NOT NULL,
    uid       TEXT NOT NULL,      -- of the object: one that was made anew never had it
    template  TEXT NOT NULL,      -- JSON
    "commit"  TEXT,               -- the annotation belay.dev/commit that it had
    cause     TEXT,               -- and its kubernetes.io/change-cause
    PRIMARY KEY (source, "group", kind, namespace, name)
) WITHOUT ROWID;

-- What each source follows, so that a commit that belay did nothing about can be explained without the configuration.
CREATE TABLE sources (
    source  TEXT PRIMARY KEY,
    folder  TEXT NOT NULL,        -- those that are followed, a line each, from the root of the repository; empty for all of it
    follow  TEXT NOT NULL,        -- for people: branch "main"
    trouble TEXT,                 -- what is in the way of reading the repository, or of planning what is found there
    since   TEXT                  -- since when that is so
) WITHOUT ROWID;

-- Where each source stands, as its daemon says.
CREATE TABLE source_states (
    source TEXT PRIMARY KEY,
    state  TEXT NOT NULL          -- JSON
) WITHOUT ROWID;

-- The objects of each source that are not as the head says, and have ended: rejected, failed, rolled-back, orphaned …
CREATE TABLE object_states (
    source    TEXT NOT NULL,
    "group"   TEXT NOT NULL,
    kind      TEXT NOT NULL,
    namespace TEXT NOT NULL,      -- empty where there is none
    name      TEXT NOT NULL,
    state     TEXT NOT NULL,
    "commit"  TEXT NOT NULL,
    reason    TEXT,               -- JSON
    place     TEXT,               -- JSON
    since     TEXT NOT NULL,
    in_head   INTEGER NOT NULL,
    PRIMARY KEY (source, "group", kind, namespace, name)
) WITHOUT ROWID;

-- Objects that somebody else has changed and that belay leaves so, as configured.
CREATE TABLE drifts (
    source    TEXT NOT NULL,
    "group"   TEXT NOT NULL,
    kind      TEXT NOT NULL,
    namespace TEXT NOT NULL,      -- empty where there is none
    name      TEXT NOT NULL,
    by        TEXT NOT NULL,      -- the manager that wrote it
    since     TEXT NOT NULL,
    PRIMARY KEY (source, "group", kind, namespace, name)
) WITHOUT ROWID;

-- What became of commits, as it is to be told to people elsewhere: a row each time that this changed. A commit's newest row
-- stands for the older ones. What is said is read from the records when it is sent.
CREATE TABLE notices (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    source   TEXT NOT NULL,
    "commit" TEXT NOT NULL,
    -- 'commit', what became of it; 'past', what became of the commits before the head that a source was first followed at,
    -- which is "commit"; 'held', that what the commit brought is held for long; 'source', that a source is blocked for long,
    -- or no longer is, with an empty "commit" and the state 'blocked' or 'unblocked'.
    kind     TEXT NOT NULL DEFAULT 'commit',
    state    TEXT NOT NULL,       -- the worst that became of one of its objects
    wrong    INTEGER NOT NULL,    -- of how many objects nothing good became
    final    INTEGER NOT NULL,    -- whether none of its records was open
    at       TEXT NOT NULL,
    since    TEXT,                -- of 'held' and 'source'
    reason   TEXT                 -- of a source that is blocked
);
CREATE INDEX notices_by_commit ON notices (source, "commit", number);

-- Up to which notice each receiver has been told.
CREATE TABLE receivers (
    name     TEXT PRIMARY KEY,
    told     INTEGER NOT NULL,
    attempts INTEGER NOT NULL,    -- in vain, since it last took one
    retry    TEXT                 -- not before, after an attempt in vain
) WITHOUT ROWID;

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
