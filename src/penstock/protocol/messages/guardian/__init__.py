"""Records of Guardian's log, `__guardian_log`. Written by tools/generate_messages.py from the schema; do not edit."""
