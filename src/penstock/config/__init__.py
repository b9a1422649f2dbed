"""Declared settings: name, doc, type, default, bounds, dynamic or not, under Kafka's property names."""
