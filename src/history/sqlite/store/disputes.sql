-- The objects of each source that somebody else keeps changing, with the corrections until now.
CREATE TABLE disputes (
    source    TEXT NOT NULL,
    "group"   TEXT NOT NULL,
    kind      TEXT NOT NULL,
    namespace TEXT NOT NULL,      -- empty where there is none
    name      TEXT NOT NULL,
    fields    TEXT NOT NULL,      -- JSON: [["spec.replicas", "updater"]], each field with the manager that writes it
    times     INTEGER NOT NULL,   -- of corrections
    first     TEXT NOT NULL,      -- the time of the first correction
    last      TEXT NOT NULL,      -- the time of the last one
    gap       INTEGER NOT NULL,   -- the milliseconds between the last two
    PRIMARY KEY (source, "group", kind, namespace, name)
) WITHOUT ROWID;
