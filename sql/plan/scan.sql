-- What a scan looks into. One row of `scan_manifests` is a manifest: its number and the first row id it has in the scan.
-- One row of `entries_view` is an entry of one of them, or of another manifest that a segment has.

-- name: scan_manifests
CREATE OR REPLACE TEMP TABLE scan_manifests AS SELECT m, first_row_id FROM scan_manifests_arrow;

-- name: entries_view
-- {name}: what the view is called
-- {entries}: a query in brackets for wide entries
CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {entries};
