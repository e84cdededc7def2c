-- The bake time that began when the rollout of a write was complete.
ALTER TABLE baselines ADD COLUMN bake_ends TEXT;     -- NULL while none has begun
ALTER TABLE baselines ADD COLUMN bake_restarts TEXT; -- JSON: {"0f3c…": 2}, the restarts of each pod before it by its uid, or null
