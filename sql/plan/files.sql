-- Planning over the wide entries of one table. One row of the entries is one file in one manifest: see
-- projections/segments.py for its columns; `m` numbers the manifest. `scan_manifests` has a row for each manifest that
-- the scan looks into: its number and the first row id that the snapshot's manifest list gives it.
-- {entries} is the table's name, {where}, {might} and {all} are conditions made from the filter.

-- name: data_files
SELECT
    e.m, e.ordinal, e.file_path, e.file_format, e.spec_id, e.partition, e.record_count, e.file_size_in_bytes,
    e.sequence_number, e.file_sequence_number, e.snapshot_id,
    coalesce(e.first_row_id, s.first_row_id + e.row_offset) AS first_row_id,
    e.content, e.sort_order_id, e.split_offsets, e.key_metadata, e.partition_key,
    {might} AS might_bits, {all} AS all_bits
FROM {entries} AS e JOIN scan_manifests AS s USING (m)
WHERE e.content = 0 AND e.status <> 2 AND ({where});

-- name: delete_files
SELECT
    e.m, e.ordinal, e.file_path, e.file_format, e.spec_id, e.partition, e.record_count, e.file_size_in_bytes,
    e.sequence_number, e.file_sequence_number, e.snapshot_id, e.content, e.sort_order_id, e.split_offsets,
    e.key_metadata, e.equality_ids, e.referenced_data_file, e.content_offset, e.content_size_in_bytes
FROM {entries} AS e JOIN scan_manifests AS s USING (m)
WHERE e.content <> 0 AND e.status <> 2 AND ({where});

-- name: count_files
SELECT
    count(*) AS files, coalesce(sum(e.record_count), 0)::BIGINT AS records,
    count(*) FILTER (WHERE {by_partition}) AS after_partition
FROM {entries} AS e JOIN scan_manifests AS s USING (m)
WHERE e.content = 0 AND e.status <> 2 AND ({where});

-- name: manifests_in_scan
SELECT i FROM summaries WHERE {where} ORDER BY i;

-- name: columns_of_files
SELECT p.place{columns} FROM planned_files AS p JOIN {entries} AS e USING (m, ordinal) ORDER BY p.place;
