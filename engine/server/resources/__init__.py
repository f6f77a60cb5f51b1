"""The operations of the REST catalog, each a function from a call to its answer."""
