"""Coordinators: state machines over internal topics such as `__consumer_offsets`, one for each partition."""
