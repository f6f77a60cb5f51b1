-- What is emptied before an instance of DuckDB is used again: attached files and tables in memory.

-- name: attached
SELECT database_name
FROM duckdb_databases()
WHERE NOT internal AND database_name <> 'memory';

-- name: detach
-- {name}: a quoted name
DETACH {name};

-- name: tables
SELECT table_name
FROM duckdb_tables()
WHERE database_name = 'memory';

-- name: drop_table
-- {name}: a quoted name
DROP TABLE memory.main.{name};
