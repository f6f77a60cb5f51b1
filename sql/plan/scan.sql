-- What a scan looks into. One row is a manifest of the snapshot: its number and the first row id it has there.

-- name: scan_manifests
CREATE OR REPLACE TEMP TABLE scan_manifests AS SELECT m, first_row_id FROM scan_manifests_arrow;
