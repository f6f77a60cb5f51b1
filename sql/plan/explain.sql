-- Why the data files of some manifests are planned or not. One row is a live data file.
-- {entries} is the wide entries of a table: see projections/entries/wide_entries.py; {only} chooses the entries that count.
-- {by_partition} and {by_metrics} are the filter by partition values alone and by column metrics too. {partition_leaves}
-- and {leaves} are numbers with a bit for each leaf of the filter: whether some row of the file may satisfy it. {surely}
-- are such numbers of whether all rows do, {known} selects the metrics of the filter's columns.

-- name: explained
SELECT
    e.m, e.file_path, e.spec_id, e.partition_key, e.record_count, e.file_size_in_bytes,
    e.record_count = 0 AS is_empty, {by_partition} AS by_partition, {by_metrics} AS by_metrics, {partition_leaves}, {leaves}, {surely}{known}
FROM {entries} AS e JOIN scan_manifests AS s USING (m)
WHERE e.content = 0 AND e.status <> 2 AND ({only})
ORDER BY e.m, e.ordinal;
