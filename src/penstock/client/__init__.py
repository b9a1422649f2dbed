"""A small async client for the command line and pipelines: admin calls, plain produce and fetch."""
