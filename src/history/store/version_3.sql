-- What each source follows, so that a commit that belay did nothing about can be explained without the configuration.
CREATE TABLE sources (
    source TEXT PRIMARY KEY,
    folder TEXT NOT NULL,         -- those that are followed, a line each, from the root of the repository; empty for all of it
    follow TEXT NOT NULL          -- for people: branch "main"
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

-- The last good revision is the last by the order of writing: a clock may have been set back.
DROP INDEX records_rolled_out;
CREATE INDEX records_rolled_out ON records (source, name, number) WHERE rolls_out = 1;

-- New words since: the triggers rolling-update and rebuilt, the outcome unknown. A plan whose head is empty holds the
-- records that were rebuilt after the history was lost.
