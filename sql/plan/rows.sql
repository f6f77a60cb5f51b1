-- One row is a data row that the filter selects: its place. They come in any order.

-- name: selected
-- {condition}: the filter
SELECT place FROM data_rows WHERE {condition};
