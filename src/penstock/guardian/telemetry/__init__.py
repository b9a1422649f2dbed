"""Reads what brokers tell of themselves: frames (`decode.py`), and what they add up to (`view.py`). Pure.

For programs of users so far (`docs/how-to/telemetry.md`): the service looks at clusters with Kafka's own APIs alone.
"""
