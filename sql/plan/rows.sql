-- One row is a data row that the filter selects, or does not select: its place. They come in any order.

-- name: selected
-- {condition}: the filter
SELECT place FROM data_rows WHERE {condition};

-- name: not_selected
-- {condition}: the filter
SELECT place FROM data_rows WHERE NOT coalesce({condition}, FALSE);
