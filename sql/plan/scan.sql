-- What a scan looks into. One row of `scan_manifests` is a manifest: its number and the first row id it has in the scan.
-- One row of the view {name} is an entry of one of them, or of another manifest that a segment has; {entries} is a query.

-- name: scan_manifests
CREATE OR REPLACE TEMP TABLE scan_manifests AS SELECT m, first_row_id FROM scan_manifests_arrow;

-- name: entries_view
CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {entries};
