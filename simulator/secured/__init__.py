"""Clusters with an authorizer and listeners on which clients log in."""
