"""Cluster metadata: records, feature levels, timeline state, the immutable image, the controller's state machines."""
