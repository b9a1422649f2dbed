"""Records of the metadata log, `__cluster_metadata`. Written by tools/generate_messages.py from the schema; do not edit."""
