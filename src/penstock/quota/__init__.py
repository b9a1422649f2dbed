"""Rates and bounds, used for replication in `node/throttles.py`; client quotas go to the exit, `node/exit.py`."""
