-- What DuckDB would do for a query, and values of expressions. One row of `explained` is a plan as JSON.

-- name: explained
-- {query}: a query
EXPLAIN (FORMAT JSON) {query}

-- name: all_conditions
SET disabled_optimizers = 'statistics_propagation, in_clause';

-- name: only_these_files
-- {files}: a list of paths
SET allowed_paths = {files};

-- name: no_more_settings
SET lock_configuration = true;
