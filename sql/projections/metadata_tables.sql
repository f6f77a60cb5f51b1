-- One row is a row of an audit table that is about one table.

-- name: of_table
-- {audited}: the name of the audit table
SELECT * EXCLUDE (namespace, name, table_uuid, name_now) FROM {audited} WHERE namespace = $namespace AND name = $name;
