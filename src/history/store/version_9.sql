-- The kustomization or the chart that a manifest was rendered by, as a path.
ALTER TABLE records ADD COLUMN rendered_by TEXT;
