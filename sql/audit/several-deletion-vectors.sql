-- rule: several-deletion-vectors
-- severity: error
-- finds: A data file with more than one deletion vector: a reader takes one of them, and shows rows that were deleted.
-- mend: It is not read until they are gone: roll back to a snapshot before the second, or take the file out with
--   table.overwrite_files() and write the rows that are left again.
SELECT
    namespace, name, table_uuid,
    min(f.referenced_data_file) AS referenced_data_file,
    count(*) AS deletion_vectors,
    min(f.referenced_data_file) AS subject,
    format('{} has {} deletion vectors', min(f.referenced_data_file), count(*)) AS message
FROM files AS f
WHERE content = 'position_deletes' AND file_format = 'puffin' AND referenced_data_file IS NOT NULL
GROUP BY
    namespace, name, table_uuid,
    -- Whichever way writers spell it.
    regexp_replace(regexp_replace(f.referenced_data_file, '^file:(//)?/', '/'), '^s3[an]:', 's3:')
HAVING count(*) > 1
