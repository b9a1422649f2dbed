"""Spark's data source and sinks, the load into lake tables, and their verification."""
