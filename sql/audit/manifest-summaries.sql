-- rule: manifest-summaries
-- severity: error
-- finds: A manifest whose partition summaries don't hold a partition of its files: scans of that partition lose rows.
-- mend: table.rewrite_manifests() writes those of data files and their summaries anew, and after it
--   table.rewrite_data_files(options={"rewrite-all": "true", "remove-dangling-deletes": "true"}) leaves out those of
--   delete files. They are found until older snapshots expire.
SELECT DISTINCT
    namespace, name, table_uuid, manifest_path,
    manifest_path AS subject,
    format('{}: its partition summaries leave out partitions of its files', manifest_path) AS message
FROM manifest_contents
WHERE NOT summaries_hold
