"""Records of the group coordinator, `__consumer_offsets`. Written by tools/generate_messages.py from the schema; do not edit."""
