"""Declared pipelines: small TOML files that name a job and its options, run together in one Spark session."""
