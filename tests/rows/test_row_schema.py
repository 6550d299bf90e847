"""The functions that SQL over the rows calls."""

from __future__ import annotations

from contextlib import closing

from trails.rows import row_schema
from trails.store.log import sqlite


def test_functions_are_created_while_another_statement_on_the_connection_is_read() -> None:
    with closing(sqlite.connect(":memory:")) as connection:
        row_schema.create_functions(connection)
        reading = connection.execute(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 3) SELECT x FROM n"
        )
        assert next(reading) == (1,)
        row_schema.create_functions(connection)
        assert reading.fetchall() == [(2,), (3,)]
        assert connection.execute("SELECT holds_text('Plan a Trip', 'trip')").fetchone() == (1,)
