-- What is in the way of reading a source's repository, or of planning what is found there, and since when.
ALTER TABLE sources ADD COLUMN trouble TEXT;
ALTER TABLE sources ADD COLUMN since TEXT;
