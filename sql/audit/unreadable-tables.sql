-- rule: unreadable-tables
-- severity: error
-- finds: A table whose metadata, manifests or history can't be read; other rules say nothing of what they can't read.
-- mend: `icecore verify` names the files; a table of another warehouse may want `icecore register --map`.
SELECT
    namespace, name, table_uuid, kind,
    kind AS subject,
    message
FROM problems
