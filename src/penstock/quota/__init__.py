"""Rates and bounds: of replication, used in `node/throttles.py`, and of clients, used in `node/client_quotas.py`."""
