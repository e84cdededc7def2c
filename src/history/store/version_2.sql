-- What a complaint shows besides its words: the lines that it is about, and the other places that have a part in it.
ALTER TABLE complaints ADD COLUMN excerpt TEXT; -- JSON
ALTER TABLE complaints ADD COLUMN also TEXT; -- JSON
