"""The table of decisions: see `support.decisions.probe`."""
