-- rule: several-deletion-vectors
-- severity: error
-- finds: A data file with more than one deletion vector: a reader takes one of them, and shows rows that were deleted.
-- mend: Delete the rows again with table.delete(), which writes one vector with all positions.
SELECT
    namespace, name, table_uuid,
    referenced_data_file,
    count(*) AS deletion_vectors,
    referenced_data_file AS subject,
    format('{} has {} deletion vectors', referenced_data_file, count(*)) AS message
FROM files
WHERE content = 'position_deletes' AND file_format = 'puffin' AND referenced_data_file IS NOT NULL
GROUP BY namespace, name, table_uuid, referenced_data_file
HAVING count(*) > 1
