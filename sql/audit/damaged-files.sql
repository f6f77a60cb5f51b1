-- rule: damaged-files
-- severity: error
-- finds: Metadata files, lists or manifests that are there and can't be read. Content files and statistics are not
--   opened: `icecore verify --deep` does that.
-- mend: Give them back from a copy, or roll back to a snapshot that does not need them; `icecore verify` says more.
SELECT
    namespace, name, table_uuid, cause, kind, files, examples,
    kind AS subject,
    message
FROM file_faults
WHERE is_wrong AND cause NOT IN ('gone', 'size', 'changed')
