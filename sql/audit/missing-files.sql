-- rule: missing-files
-- severity: error
-- finds: Files of one kind that a snapshot of a table needs, and that are gone.
-- mend: Give them back from a copy; metadata, manifests and lists of icecore's own come back by `icecore rebuild`.
SELECT
    namespace, name, table_uuid, kind, files, examples,
    kind AS subject,
    message
FROM file_faults
WHERE is_wrong AND cause = 'gone'
