"""A store whose log is a table in PostgreSQL, with an index (the embedded engine) in each process that opens it."""
