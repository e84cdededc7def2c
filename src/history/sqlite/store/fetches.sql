-- When the fetch that found the head of an arrival began, and when it ended. NULL where no fetch found it: it was charged later,
-- or an older belay noted it.
ALTER TABLE arrivals ADD COLUMN fetch_began TEXT;
ALTER TABLE arrivals ADD COLUMN fetched TEXT;
