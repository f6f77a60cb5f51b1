-- The query of a view within another one, and its rows. One row is a row of the view.

-- name: all_of
-- {rows}: a relation
SELECT * FROM {rows}

-- name: renamed
-- {columns}: columns of `view_query` with their names
-- {query}: a query
-- {given}: a name for each of its columns
SELECT {columns} FROM ({query}) AS view_query({given})

-- name: first_rows
-- {names}: names of columns
-- {view}: the name of a view
-- {most}: a number
SELECT {names} FROM {view} LIMIT {most}
