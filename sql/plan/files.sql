-- Planning over the wide entries of one table. One row of the entries is one file in one manifest: see
-- projections/entries/wide_entries.py for its columns; `m` numbers the manifest. {entries} is a query for the entries of the
-- manifests that the scan looks into, {where}, {might} and {all} are conditions made from the filter, {more} columns.

-- name: data_files
SELECT
    e.m, e.ordinal, e.file_path, e.file_format, e.spec_id, e.partition_key, e.record_count,
    e.file_size_in_bytes, e.sequence_number, e.first_row_id, e.row_offset, e.sort_order_id, e.split_offsets,
    e.key_metadata, {might}, {all}{more}
FROM {entries} AS e
WHERE e.content = 0 AND e.status <> 2 AND ({where});

-- name: count_files
SELECT
    count(*) AS files, coalesce(sum(e.record_count), 0)::BIGINT AS records,
    count(*) FILTER (WHERE {by_partition}) AS after_partition
FROM {entries} AS e
WHERE e.content = 0 AND e.status <> 2 AND ({where});

-- name: manifests_in_scan
SELECT i FROM summaries WHERE {where} ORDER BY i;

-- name: columns_of_files
SELECT p.place{columns} FROM planned_files AS p JOIN {entries} AS e USING (m, ordinal) ORDER BY p.place;


-- name: live_files
SELECT
    e.m, e.ordinal, e.content, e.file_path, lower(e.file_format) AS file_format, e.spec_id,
    e.partition_key, e.record_count, e.file_size_in_bytes, e.sequence_number, e.snapshot_id, e.equality_ids,
    e.referenced_data_file
FROM {entries} AS e JOIN scan_manifests USING (m)
WHERE e.status <> 2;

-- name: live_partitions
SELECT e.partition_key, first(e.spec_id) AS spec_id, first(e.partition) AS partition
FROM {entries} AS e JOIN scan_manifests USING (m)
WHERE e.status <> 2
GROUP BY e.partition_key;
