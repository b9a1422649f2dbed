"""A simulated cluster with topics that are compacted."""
