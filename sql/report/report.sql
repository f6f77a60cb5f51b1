-- What a report tells, over the tables of the SQL prompt: a row for each table, size class of files, partition, commit, ref.

-- name: tables
-- {condition}: which tables
SELECT
    name_now, table_uuid, format_version, location, partition_spec, snapshots, columns
FROM tables
WHERE {condition}
ORDER BY name_now

-- name: sizes
-- A row for each power of two that sizes of a table's data files have.
-- {condition}: which tables
SELECT
    name_now, table_uuid,
    greatest(floor(log2(greatest(file_size_in_bytes, 1))), 0)::INT AS power,
    count(*) AS files,
    sum(file_size_in_bytes)::BIGINT AS bytes,
    sum(record_count)::BIGINT AS records
FROM files
WHERE content = 'data' AND {condition}
GROUP BY ALL
ORDER BY ALL

-- name: partitions
-- A row for each partition of a table.
-- {condition}: which tables
SELECT
    name_now, table_uuid, spec_id, partition,
    any_value(map_values(partition_values)) AS fields,
    count(*) FILTER (content = 'data') AS files,
    coalesce(sum(file_size_in_bytes) FILTER (content = 'data'), 0)::BIGINT AS bytes,
    coalesce(sum(record_count) FILTER (content = 'data'), 0)::BIGINT AS records,
    count(*) FILTER (content <> 'data') AS delete_files,
    coalesce(sum(record_count) FILTER (content <> 'data'), 0)::BIGINT AS deletes
FROM files
WHERE {condition}
GROUP BY name_now, table_uuid, spec_id, partition
ORDER BY ALL

-- name: commits
-- A row for each snapshot that the log knows of a table, expired ones too.
-- {condition}: which tables
SELECT
    name_now, table_uuid, position, actor, message, snapshot_id, parent_id, branch, operation,
    epoch_ms(committed_at) AS committed_ms,
    try_cast(summary['total-records'] AS BIGINT) AS records,
    try_cast(summary['total-files-size'] AS BIGINT) AS bytes
FROM commits
WHERE name_now IS NOT NULL AND {condition}
ORDER BY name_now, position

-- name: refs
-- {condition}: which tables
SELECT name_now, table_uuid, ref, type, snapshot_id
FROM refs
WHERE {condition}
ORDER BY ALL
