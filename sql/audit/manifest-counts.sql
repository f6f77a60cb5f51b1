-- rule: manifest-counts
-- severity: error
-- finds: A manifest whose list counts other files or rows than it has: readers that go by the counts leave it out.
-- mend: table.rewrite_manifests() writes those of data files and their counts anew, and after it
--   table.rewrite_data_files(options={"rewrite-all": "true", "remove-dangling-deletes": "true"}) leaves out those of
--   delete files. They are found until older snapshots expire.
WITH counted AS (
    SELECT
        namespace, name, table_uuid, manifest_path,
        unnest([
            {'counted': 'added_files', 'said': added_files_count, 'found': added_files_found},
            {'counted': 'existing_files', 'said': existing_files_count, 'found': existing_files_found},
            {'counted': 'deleted_files', 'said': deleted_files_count, 'found': deleted_files_found},
            {'counted': 'added_rows', 'said': added_rows_count, 'found': added_rows_found},
            {'counted': 'existing_rows', 'said': existing_rows_count, 'found': existing_rows_found},
            {'counted': 'deleted_rows', 'said': deleted_rows_count, 'found': deleted_rows_found}
        ], recursive := true)
    FROM manifest_contents
)
SELECT DISTINCT
    namespace, name, table_uuid, manifest_path, counted, said, found,
    concat_ws(' ', manifest_path, counted) AS subject,
    format('{}: its list says {} {}, it has {}', manifest_path, said, replace(counted, '_', ' '), found) AS message
FROM counted
WHERE said <> found
