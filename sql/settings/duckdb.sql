-- What DuckDB is told of a connection before its queries run, which gives no row. One row of `reads_files` says whether
-- it may read files.

-- name: one_thread
SET threads = 1;

-- name: all_threads
RESET threads;

-- name: memory_limit
-- {size}: a string in SQL, as '512MB'
SET memory_limit = {size};

-- name: arrow_as_is
SET arrow_lossless_conversion = true;

-- name: utc
SET GLOBAL TimeZone = 'UTC';

-- name: no_files
SET enable_external_access = false;

-- name: no_python_names
SET GLOBAL python_enable_replacements = false;

-- name: reads_files
SELECT current_setting('enable_external_access');
