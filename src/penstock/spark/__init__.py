"""Spark data source, the lake load, verification and reports."""
