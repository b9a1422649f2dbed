"""Messages of our own APIs. Written by tools/generate_messages.py from the schema; do not edit."""
