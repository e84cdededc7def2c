-- The pod template that a workload had when a rollout took its place while no good one was known: what is left to go back to
-- where neither the cluster nor Git has another. Goes when the workload is seen complete.
CREATE TABLE replaced (
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
