-- What became of commits, as it is to be told to people elsewhere: a row each time that this changed. A commit's newest row
-- stands for the older ones. What is said is read from the records when it is sent.
CREATE TABLE notices (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    source   TEXT NOT NULL,
    "commit" TEXT NOT NULL,
    state    TEXT NOT NULL,        -- the worst that became of one of its objects
    wrong    INTEGER NOT NULL,     -- of how many objects nothing good became
    final    INTEGER NOT NULL,     -- whether none of its records was open
    at       TEXT NOT NULL
);
CREATE INDEX notices_by_commit ON notices (source, "commit", number);

-- Up to which notice each receiver has been told.
CREATE TABLE receivers (
    name     TEXT PRIMARY KEY,
    told     INTEGER NOT NULL,
    attempts INTEGER NOT NULL,     -- in vain, since it last took one
    retry    TEXT                  -- not before, after an attempt in vain
) WITHOUT ROWID;
