"""A catalog as one of Spark's own: its tables and views by their names in `spark.sql` of a classic session."""
