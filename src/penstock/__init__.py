"""Penstock: an event-streaming platform that is Kafka to its clients, tools and disks."""

__version__ = "0.1.0"
