"""Reads what brokers tell of themselves: frames (`decode.py`), and what they add up to (`view.py`). Pure."""
