-- Planning over the wide entries of one table. One row of the entries is one file in one manifest: see
-- projections/entries/wide_entries.py for its columns; `m` numbers the manifest.

-- name: data_files
-- {entries}: a query in brackets for the entries of the manifests that the scan looks into
-- {where}: whether a file may hold a row of the filter
-- {might}: numbers with a bit for each leaf of the filter: whether some row may satisfy it
-- {all}: such numbers of whether all rows do
-- {more}: further columns of `e`, each after a comma
SELECT
    e.m, e.ordinal, e.file_path, e.file_format, e.spec_id, e.partition_key, e.record_count,
    e.file_size_in_bytes, e.sequence_number, e.first_row_id, e.row_offset, e.sort_order_id, e.split_offsets,
    e.key_metadata, {might}, {all}{more}
FROM {entries} AS e
WHERE e.content = 0 AND e.status <> 2 AND ({where});

-- name: some_files
-- {files}: a query for data files
-- {most}: how many at most
SELECT * FROM ({files}) LIMIT {most};

-- name: count_by_manifest
-- {entries}: a query in brackets for the entries of the manifests that the scan looks into
-- {where}: whether a file may hold a row of the filter
SELECT e.m, count(*) AS files FROM {entries} AS e WHERE e.content = 0 AND e.status <> 2 AND ({where}) GROUP BY e.m;

-- name: count_files
-- {entries}: a query in brackets for the entries of the manifests that the scan looks into
-- {where}: which entries count
-- {by_partition}: whether a file may hold a row of the filter, by its partition values
SELECT
    count(*) AS files, coalesce(sum(e.record_count), 0)::BIGINT AS records,
    count(*) FILTER (WHERE {by_partition}) AS after_partition
FROM {entries} AS e
WHERE e.content = 0 AND e.status <> 2 AND ({where});

-- name: manifests_in_scan
-- {where}: whether a manifest may hold a row of the filter, by its summaries
SELECT i FROM summaries WHERE {where} ORDER BY i;

-- name: columns_of_files
-- {entries}: a query in brackets for the entries of the manifests that the scan looks into
-- {columns}: columns of `e`, each after a comma
SELECT p.place{columns} FROM planned_files AS p JOIN {entries} AS e USING (m, ordinal) ORDER BY p.place;

-- name: live_files
-- {entries}: the wide entries of the table
SELECT
    e.m, e.ordinal, e.content, e.file_path, lower(e.file_format) AS file_format, e.spec_id,
    e.partition_key, e.record_count, e.file_size_in_bytes, e.sequence_number, e.snapshot_id, e.equality_ids,
    e.referenced_data_file
FROM {entries} AS e JOIN scan_manifests USING (m)
WHERE e.status <> 2;

-- name: live_partitions
-- {entries}: the wide entries of the table
SELECT e.partition_key, first(e.spec_id) AS spec_id, first(e.partition) AS partition
FROM {entries} AS e JOIN scan_manifests USING (m)
WHERE e.status <> 2
GROUP BY e.partition_key;
