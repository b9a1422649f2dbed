"""The quorum state file of a metadata log. Written by tools/generate_messages.py from the schema; do not edit."""
