-- Why the data files of some manifests are planned or not. One row is a live data file.

-- name: explained
-- {entries}: the wide entries of the table, see projections/entries/wide_entries.py
-- {only}: which entries count
-- {by_partition}: whether a file may hold a row of the filter, by its partition values
-- {by_metrics}: the same by column metrics too
-- {partition_leaves}: numbers with a bit for each leaf of the filter: whether some row may, by partition values
-- {leaves}: such numbers by column metrics too
-- {surely}: such numbers of whether all rows do
-- {known}: the metrics of the filter's columns, each after a comma
SELECT
    e.m, e.file_path, e.spec_id, e.partition_key, e.record_count, e.file_size_in_bytes,
    e.record_count = 0 AS is_empty, {by_partition} AS by_partition, {by_metrics} AS by_metrics,
    {partition_leaves}, {leaves}, {surely}{known}
FROM {entries} AS e JOIN scan_manifests AS s USING (m)
WHERE e.content = 0 AND e.status <> 2 AND ({only})
ORDER BY e.m, e.ordinal;
