"""The page of the server: the log, the tables and the SQL prompt, for people in a browser."""
