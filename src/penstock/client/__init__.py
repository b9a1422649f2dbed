"""A small async client for the command line, Guardian and pipelines: admin calls, plain produce and fetch."""
