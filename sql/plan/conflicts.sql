-- What commits since a base did to the files of a table. One row of `changed_files` is a content file that one of these
-- snapshots added or removed; of `deletes_for_files` a delete file that came or went since and bears on a file of
-- interest. `scan_manifests` has the manifests to look into, `new_snapshots` the
-- snapshots since the base, and `files_of_interest` paths of data files. A snapshot that replaces changes no row.

-- name: new_snapshots
CREATE OR REPLACE TEMP TABLE new_snapshots AS SELECT snapshot_id, replaces FROM new_snapshots_arrow;

-- name: files_of_interest
CREATE OR REPLACE TEMP TABLE files_of_interest AS SELECT DISTINCT file_path FROM files_of_interest_arrow;

-- name: changed_data
-- {entries}: the wide entries of the table
-- {status}: 1 for files that were added, 2 for those that were removed
-- {where}: whether a file may hold a row of the filter
SELECT e.file_path, e.snapshot_id, e.spec_id, e.partition
FROM {entries} AS e JOIN scan_manifests USING (m) JOIN new_snapshots AS n USING (snapshot_id)
WHERE e.content = 0 AND e.status = {status} AND NOT n.replaces AND ({where})
ORDER BY e.snapshot_id, e.file_path;

-- name: missing_data
-- {entries}: the wide entries of the table
SELECT e.file_path, e.snapshot_id, e.spec_id, e.partition
FROM {entries} AS e JOIN scan_manifests USING (m) JOIN new_snapshots AS n USING (snapshot_id)
WHERE e.content = 0 AND e.status = 2 AND e.file_path IN (SELECT file_path FROM files_of_interest)
ORDER BY e.snapshot_id, e.file_path;

-- name: changed_deletes
-- {entries}: the wide entries of the table
-- {where}: whether a file may be of a partition of the filter
SELECT e.file_path, e.snapshot_id, e.spec_id, e.partition, e.referenced_data_file
FROM {entries} AS e JOIN scan_manifests USING (m) JOIN new_snapshots AS n USING (snapshot_id)
WHERE e.content <> 0 AND e.status <> 0 AND NOT n.replaces AND ({where})
ORDER BY e.snapshot_id, e.file_path;

-- name: concurrent_vectors
-- {entries}: the wide entries of the table
-- {named_key}: `path_key` of the data file that `e` names
-- {key_of_interest}: `path_key` of a file of interest
SELECT e.referenced_data_file AS file_path, e.snapshot_id, e.spec_id, e.partition
FROM {entries} AS e JOIN scan_manifests USING (m) JOIN new_snapshots AS n USING (snapshot_id)
WHERE e.content = 1 AND e.file_format = 'PUFFIN' AND e.status = 1
  AND {named_key} IN (SELECT {key_of_interest} FROM files_of_interest)
ORDER BY e.snapshot_id, e.file_path;

-- name: deletes_and_their_files
-- {entries}: the wide entries of the table
CREATE OR REPLACE TEMP TABLE deletes_and_their_files AS
SELECT row_number() OVER () AS number, * FROM (
    SELECT e.* FROM {entries} AS e JOIN scan_manifests USING (m)
    WHERE e.content = 0 AND e.status <> 2 AND e.file_path IN (SELECT file_path FROM files_of_interest)
    UNION ALL
    SELECT e.* REPLACE (1::INTEGER AS status)
    FROM {entries} AS e JOIN scan_manifests USING (m) JOIN new_snapshots AS n USING (snapshot_id)
    WHERE e.content <> 0 AND e.status <> 0 AND NOT n.replaces
);

-- name: files_with_deletes
SELECT * FROM deletes_and_their_files WHERE content = 0

-- name: deletes_for_files
-- {pairs}: a query of plan/deletes.sql for pairs of both
-- {number}: a sequence number, or NULL: `is_later` tells which equality deletes are of later ones
SELECT DISTINCT data.file_path, d.snapshot_id, d.spec_id, d.partition,
    coalesce(d.content = 2 AND d.sequence_number > {number}, FALSE) AS is_later
FROM ({pairs}) AS p
JOIN deletes_and_their_files AS data ON data.number = p.file
JOIN deletes_and_their_files AS d ON d.number = p."delete"
ORDER BY d.snapshot_id, data.file_path;
