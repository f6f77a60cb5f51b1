-- rule: file-sizes
-- severity: error
-- finds: Files of one kind that have another size than was noted when they were written, or other bytes where a checksum
--   was noted.
-- mend: Somebody wrote over them: give them back from a copy; icecore's own metadata comes back by `icecore rebuild`.
SELECT
    namespace, name, table_uuid, cause, kind, files, examples,
    kind AS subject,
    message
FROM file_faults
WHERE is_wrong AND cause IN ('size', 'changed')
