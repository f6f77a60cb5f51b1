-- rule: shared-folders
-- severity: warning
-- scope: tables
-- finds: Two tables in one folder, or one in a folder of the other: engines that search for orphans in it take the
--   files of one for orphans of the other.
-- mend: Move one of them: make a table elsewhere, copy its rows, and drop it.
WITH located AS (
    SELECT
        namespace, name, table_uuid, name_now, location,
        -- Whichever way writers spell it.
        regexp_replace(regexp_replace(rtrim(location, '/'), '^file:(//)?/', '/'), '^s3[an]:', 's3:') AS path,
        string_split(path, '/') AS parts
    FROM tables
),
folders AS (
    SELECT *, array_to_string(parts[1:unnest(range(1, len(parts) + 1))], '/') AS folder
    FROM located
)
SELECT
    f.namespace, f.name, f.table_uuid,
    o.name_now AS other,
    f.location,
    o.name_now AS subject,
    format('it lies in the folder of {}, {}', o.name_now, o.location) AS message
FROM folders AS f
JOIN located AS o ON o.path = f.folder AND (o.namespace, o.name) <> (f.namespace, f.name)
WHERE f.path <> o.path OR (f.namespace, f.name) > (o.namespace, o.name)
