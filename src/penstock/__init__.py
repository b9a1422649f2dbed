"""Penstock: a Kafka-compatible event-streaming platform, with loads into lake tables."""

__version__ = "0.1.0"
