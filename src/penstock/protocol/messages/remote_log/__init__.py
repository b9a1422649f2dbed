"""Records of the tiered storage metadata, `__remote_log_metadata`. Written by tools/generate_messages.py from the schema; do not edit."""
