"""Coordinators: state machines over the internal topics, one for each partition of `__consumer_offsets` and its kin."""
