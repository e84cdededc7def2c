-- Outcomes are kept under the words that users see.
UPDATE records SET outcome = 'pending' WHERE ended IS NULL AND outcome = 'planned';
UPDATE records SET outcome = 'progressing' WHERE ended IS NULL AND outcome = 'under-way';

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
