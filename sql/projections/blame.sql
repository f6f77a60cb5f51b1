-- One row for each commit that changed one thing of a table, the latest first. These run over the tables of the SQL
-- prompt, of the table whose UUID is $uuid.

-- name: file
-- A path, its end, or what a terminal left of it behind the mark of a cut.
SELECT
    position, recorded_at, actor, message, operation, snapshot_id, branch, change, content, file_path, partition,
    record_count
FROM file_history
WHERE table_uuid = $uuid AND (
    file_path = $value
    OR ends_with(file_path, '/' || $value)
    OR (starts_with($value, '…') AND ends_with(file_path, substr($value, 2)))
)
ORDER BY position DESC, file_path;

-- name: partition
SELECT
    position, recorded_at, actor, message, operation, snapshot_id, branch, change, content, file_path, partition,
    record_count
FROM file_history
WHERE table_uuid = $uuid AND partition = $value
ORDER BY position DESC, file_path;

-- name: column
SELECT
    position, recorded_at, actor, message, change, column_name, type, required, column_name_before, type_before
FROM schema_history
WHERE
    table_uuid = $uuid
    AND field_id IN (SELECT field_id FROM schema_history WHERE table_uuid = $uuid AND column_name = $value)
ORDER BY position DESC, field_id;

-- name: property
SELECT position, recorded_at, actor, message, change, key, value, value_before
FROM property_history
WHERE table_uuid = $uuid AND key = $value
ORDER BY position DESC;

-- name: ref
SELECT position, recorded_at, actor, message, change, ref, type, snapshot_id, snapshot_id_before
FROM ref_history
WHERE table_uuid = $uuid AND ref = $value
ORDER BY position DESC;

-- name: commit
-- The files that the event at $position added and removed.
SELECT
    change, content, file_path, partition, record_count, file_size_in_bytes, operation, branch, snapshot_id
FROM file_history
WHERE table_uuid = $uuid AND position = $position
ORDER BY ALL;
