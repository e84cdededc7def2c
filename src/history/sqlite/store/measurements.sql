-- The measurements of the analyses of a rollout, look by look.
CREATE TABLE measurements (
    record      INTEGER NOT NULL REFERENCES records ON DELETE CASCADE,
    number      INTEGER NOT NULL,
    measurement TEXT NOT NULL,    -- JSON
    PRIMARY KEY (record, number)
) WITHOUT ROWID;
