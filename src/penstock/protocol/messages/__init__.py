"""Kafka's messages, one module each. Written by tools/generate_messages.py from the schema; do not edit."""
