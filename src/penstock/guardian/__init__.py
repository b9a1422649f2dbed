"""Governance of clusters: what a cluster's load is (`model`), and where its replicas had better be (`plan`, pure)."""
