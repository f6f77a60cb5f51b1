"""A model test: Iceberg's own Java classes, PyIceberg and icecore change one table in turns.

A walk makes a warehouse with a table of random shape and takes steps. What each step does is chosen by the walk's seed
and the step's number alone, so that a walk can be repeated, and steps left out of it. After each step the rows, columns
and references of the table in each engine are what a naive model in memory says.
"""
