"""SQL over topics, through DuckDB: tables that read what a query needs, columns of JSON values, results."""
