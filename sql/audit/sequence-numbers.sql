-- rule: sequence-numbers
-- severity: error
-- finds: Sequence numbers that can't be: of a file above its manifest's, of a snapshot above its table's, or not above
--   its parent's. By them deletes find their rows.
-- mend: Rows may be deleted that should not be, or the reverse. Roll back to a snapshot before it, and ask the engine
--   that made it why.
SELECT
    namespace, name, table_uuid,
    manifest_path AS subject,
    format(
        '{}: {} files are newer than the manifest (sequence number {}), or their data than they are',
        manifest_path, misnumbered_files, sequence_number
    ) AS message
FROM manifest_contents
WHERE misnumbered_files > 0
UNION
SELECT
    namespace, name, table_uuid,
    manifest_path,
    format(
        '{}: its list says that no file is older than sequence number {}, one has {}',
        manifest_path, min_sequence_number, min_sequence_number_found
    )
FROM manifest_contents
WHERE min_sequence_number_found < min_sequence_number
UNION
SELECT
    s.namespace, s.name, s.table_uuid,
    format('snapshot {}', s.snapshot_id),
    format(
        'snapshot {} has the sequence number {}, the last of the table is {}',
        s.snapshot_id, s.sequence_number, t.last_sequence_number
    )
FROM snapshots AS s
JOIN tables AS t ON t.namespace = s.namespace AND t.name = s.name
WHERE t.format_version > 1 AND s.sequence_number > t.last_sequence_number
UNION
SELECT
    s.namespace, s.name, s.table_uuid,
    format('snapshot {}', s.snapshot_id),
    format(
        'snapshot {} has the sequence number {}, which is not above that of its parent, {}',
        s.snapshot_id, s.sequence_number, p.sequence_number
    )
FROM snapshots AS s
JOIN snapshots AS p ON p.namespace = s.namespace AND p.name = s.name AND p.snapshot_id = s.parent_id
WHERE s.sequence_number > 0 AND s.sequence_number <= p.sequence_number
