-- Partition statistics (Spec: Partition Statistics File, MD5). One row is one partition tuple of one partition spec.
-- `scan_manifests` has a row for each manifest of the snapshot, `snapshots_of_table` the snapshots that are still
-- there; `place` counts them in order of time.

-- name: partition_counts
-- The counts of each partition, sorted.
-- {entries}: the wide entries of the table, see projections/entries/wide_entries.py
-- {partition}: the partition values by their columns, each before a comma
-- {order}: these columns, sorted, each before a comma
WITH matched AS (
    SELECT
        e.*, s.timestamp_ms, s.place,
        e.status <> 2 AS is_live, e.content = 1 AND e.file_format = 'PUFFIN' AS is_vector
    FROM {entries} AS e JOIN scan_manifests USING (m)
    LEFT JOIN snapshots_of_table AS s ON s.snapshot_id = e.snapshot_id
)
SELECT
    partition_key, {partition}
    any_value(spec_id) AS spec_id,
    coalesce(sum(record_count) FILTER (content = 0 AND is_live), 0)::BIGINT AS data_record_count,
    (count(*) FILTER (content = 0 AND is_live))::INTEGER AS data_file_count,
    coalesce(sum(file_size_in_bytes) FILTER (content = 0 AND is_live), 0)::BIGINT AS total_data_file_size_in_bytes,
    coalesce(sum(record_count) FILTER (content = 1 AND is_live), 0)::BIGINT AS position_delete_record_count,
    (count(*) FILTER (content = 1 AND is_live AND NOT is_vector))::INTEGER AS position_delete_file_count,
    coalesce(sum(record_count) FILTER (content = 2 AND is_live), 0)::BIGINT AS equality_delete_record_count,
    (count(*) FILTER (content = 2 AND is_live))::INTEGER AS equality_delete_file_count,
    arg_max(timestamp_ms, place) AS last_updated_at,
    arg_max(snapshot_id, place) FILTER (place IS NOT NULL) AS last_updated_snapshot_id,
    (count(*) FILTER (is_vector AND is_live))::INTEGER AS dv_count
FROM matched
GROUP BY partition_key
ORDER BY {order} spec_id, partition_key;

-- name: partition_stats
-- The same with the rows that are left after deletes.
-- {counts}: the query `partition_counts`
-- {entries}: the wide entries of the table
-- {data_key}: `path_key` of the data file `d`, see plan/deletes.sql
-- {named_key}: that of the data file that the vector `v` is of
-- {order}: as in `partition_counts`
WITH counted AS (
    {counts}
),
entries AS (
    SELECT e.*, e.status <> 2 AS is_live, e.content = 1 AND e.file_format = 'PUFFIN' AS is_vector
    FROM {entries} AS e JOIN scan_manifests USING (m)
),
data_files AS (
    SELECT DISTINCT file_path, partition_key FROM entries WHERE content = 0 AND is_live
),
-- A vector whose data file is gone deletes nothing; another's rows are counted where the file is.
deleted_rows AS (
    SELECT d.partition_key, sum(v.record_count)::BIGINT AS vector_record_count
    FROM entries AS v JOIN data_files AS d ON {data_key} = {named_key}
    WHERE v.is_vector AND v.is_live
    GROUP BY d.partition_key
),
-- Equality deletes without a partition may delete rows of every partition (SP4).
global_deletes AS (
    SELECT count(*) > 0 AS found FROM entries
    WHERE content = 2 AND is_live AND spec_id IN (SELECT unnest($unpartitioned::INTEGER[]))
),
-- So may others, of partitions of their spec, where values may have been lost: see projections/plan/deletes/lost_values.py.
specs_with_deletes AS (
    SELECT DISTINCT spec_id FROM entries
    WHERE content <> 0 AND NOT is_vector AND is_live AND spec_id IN (SELECT unnest($losable::INTEGER[]))
)
SELECT
    c.*,
    CASE WHEN position_delete_file_count = 0 AND equality_delete_file_count = 0 AND NOT g.found
              AND spec_id NOT IN (FROM specs_with_deletes)
         THEN data_record_count - coalesce(d.vector_record_count, 0) END AS total_record_count
FROM counted AS c CROSS JOIN global_deletes AS g LEFT JOIN deleted_rows AS d USING (partition_key)
ORDER BY {order} spec_id, partition_key;
