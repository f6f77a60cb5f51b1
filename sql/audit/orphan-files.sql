-- rule: orphan-files
-- severity: note
-- finds: Files in a table's folders that nothing in the log references, nor any other table, and that are so old that no
--   writer can be at work on them.
-- mend: table.maintenance.remove_orphan_files() deletes them; look at them with dry_run=True first.
-- option: orphan_days = 3
SELECT
    o.namespace, o.name, o.table_uuid,
    count(*) AS files,
    sum(o.file_size_in_bytes)::BIGINT AS bytes,
    'orphans' AS subject,
    format('files that nothing needs: {} of {} bytes, as {}', count(*), sum(o.file_size_in_bytes), min(o.file_path))
        AS message
FROM orphan_files AS o
JOIN limits AS l ON l.namespace = o.namespace AND l.name = o.name
WHERE o.modified_at < now() - to_milliseconds((l.orphan_days * 86_400_000)::BIGINT)
GROUP BY o.namespace, o.name, o.table_uuid
