"""The producer state snapshot of a partition. Written by tools/generate_messages.py from the schema; do not edit."""
