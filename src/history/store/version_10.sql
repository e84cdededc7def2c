-- The object that set a record off, for the triggers that name one: JSON. What was written before names it in `who` alone.
ALTER TABLE records ADD COLUMN named TEXT;
UPDATE records SET named = json_object('group', '', 'kind', substr(who, 1, instr(who, ' ') - 1), 'namespace',
       CASE WHEN instr(who, '/') > 0 THEN substr(who, instr(who, ' ') + 1, instr(who, '/') - instr(who, ' ') - 1) END,
       'name', CASE WHEN instr(who, '/') > 0 THEN substr(who, instr(who, '/') + 1)
                    ELSE substr(who, instr(who, ' ') + 1) END)
 WHERE "trigger" IN ('together', 'autoscaler');

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
INSERT OR REPLACE INTO baselines
SELECT record, step, at, coalesce(json_extract(detail, '$.generation'), 0), coalesce(json_extract(detail, '$.uid'), ''),
       json_extract(detail, '$.old_failure'), coalesce(json_extract(detail, '$.only_size'), 0)
  FROM steps WHERE step IN ('applied', 'went-back') AND json_valid(detail) ORDER BY record, number;
UPDATE steps SET detail = 'as generation ' || json_extract(detail, '$.generation')
 WHERE step IN ('applied', 'went-back') AND json_valid(detail);
