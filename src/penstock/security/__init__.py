"""Principals, operations, resources, and the authorizer. TLS belongs to `server/transport.py`."""
