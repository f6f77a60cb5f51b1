-- rule: lost-commits
-- severity: warning
-- finds: Metadata files of later commits to a table than the log has: an earlier copy of the log was put back, and what was
--   committed after it was made is lost, or a crash kept a commit out of the log that nobody was told of.
-- mend: Put the later log back if there is one, else load again what is missing; `icecore orphans` deletes the files.
SELECT
    namespace, name, table_uuid, files, examples,
    'metadata files' AS subject,
    message
FROM file_faults
WHERE cause = 'of no event'
