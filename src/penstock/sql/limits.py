"""Limits of SQL over topics. Nobody needs to tune them."""

SQL_MEMORY = "1GiB"
"""What DuckDB holds in memory for a query; what exceeds it spills into a temporary directory."""
SQL_RESULT_BATCH_ROWS = 10_000
"""Rows of a result that are in memory at once on their way out."""
SQL_TABLE_ROWS = 1_000
"""Rows of a result shown as a table, which must be held to be aligned; the other forms have no limit."""
SQL_CELL_CHARACTERS_MAX = 80
"""Characters of one cell of such a table; longer ones are cut."""
SQL_JSON_SAMPLE_RECORDS = 1_000
"""Records from which the columns of JSON values are learnt."""
SQL_JSON_COLUMNS_MAX = 1_000
"""Fields of JSON values; a topic with more cannot be a table of columns."""
SQL_STOP_TIMEOUT_S = 5
"""How long a query that is interrupted may take to end before it is left behind."""
SQL_TOPICS_MAX = 1_000
"""Topics that SHOW TABLES lists."""
