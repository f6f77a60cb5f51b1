-- rule: warehouse-elsewhere
-- severity: error
-- scope: warehouse
-- finds: A warehouse that was opened in another folder than the one its log names: it was copied or moved.
-- mend: `icecore move` gives it the paths of its new folder, `icecore clone` makes a copy a warehouse of its own.
SELECT
    location, opened_at,
    'warehouse' AS subject,
    format('{} was opened, the log says that the warehouse lies at {}', opened_at, location) AS message
FROM warehouse
WHERE NOT is_home
