-- The holds of each source as they were known last, with what is needed to make a held object anew. A hold itself is an
-- annotation of its object, and goes with it.
CREATE TABLE holds (
    source     TEXT NOT NULL,
    "group"    TEXT NOT NULL,
    kind       TEXT NOT NULL,
    namespace  TEXT NOT NULL,     -- empty where there is none
    name       TEXT NOT NULL,
    hold       TEXT NOT NULL,     -- JSON, as in the annotation belay.dev/hold
    template   TEXT,              -- JSON; the pod template that the object has while it is held
    "commit"   TEXT,              -- the annotation belay.dev/commit that goes with it
    cause      TEXT,              -- and its kubernetes.io/change-cause
    uid        TEXT NOT NULL,     -- of the object that has the hold; empty before it was written
    generation INTEGER NOT NULL,  -- of that object, when it was first seen with the hold
    PRIMARY KEY (source, "group", kind, namespace, name)
) WITHOUT ROWID;
