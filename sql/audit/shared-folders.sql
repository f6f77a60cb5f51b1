-- rule: shared-folders
-- severity: warning
-- scope: tables
-- finds: Two tables in one folder, or one in a folder of the other: engines that search for orphans in it take the
--   files of one for orphans of the other.
-- mend: Move one of them: make a table elsewhere, copy its rows, and drop it.
WITH located AS (
    SELECT namespace, name, table_uuid, rtrim(location, '/') AS location, string_split(rtrim(location, '/'), '/') AS parts
    FROM tables
),
folders AS (
    SELECT namespace, name, table_uuid, location, array_to_string(parts[1:unnest(range(1, len(parts) + 1))], '/') AS folder
    FROM located
)
SELECT
    f.namespace, f.name, f.table_uuid,
    concat_ws('.', o.namespace, o.name) AS other,
    f.location,
    concat_ws('.', o.namespace, o.name) AS subject,
    format('it lies in the folder of {}.{}, {}', o.namespace, o.name, o.location) AS message
FROM folders AS f
JOIN located AS o ON o.location = f.folder AND (o.namespace, o.name) <> (f.namespace, f.name)
WHERE f.location <> o.location OR (f.namespace, f.name) > (o.namespace, o.name)
