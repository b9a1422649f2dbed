"""Clusters whose client quotas are changed while nodes fail."""
