-- What a notice is about: 'commit', what became of it; 'past', what became of the commits before the head that a source was
-- first followed at, which is "commit"; 'held', that what the commit brought is held for long; 'source', that a source is
-- blocked for long, or no longer is, with an empty "commit" and the state 'blocked' or 'unblocked'.
ALTER TABLE notices ADD COLUMN kind TEXT NOT NULL DEFAULT 'commit';
ALTER TABLE notices ADD COLUMN since TEXT;   -- of 'held' and 'source'
ALTER TABLE notices ADD COLUMN reason TEXT;  -- of a source that is blocked
