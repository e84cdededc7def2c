-- What each source follows, so that a commit that belay did nothing about can be explained without the configuration.
CREATE TABLE sources (
    source TEXT PRIMARY KEY,
    folder TEXT NOT NULL,         -- from the root of the repository; empty for all of it
    follow TEXT NOT NULL          -- for people: branch "main"
) WITHOUT ROWID;

-- New words since: the triggers rolling-update and rebuilt, the outcome unknown. A plan whose head is empty holds the
-- records that were rebuilt after the history was lost.
