"""Records of the share coordinator, `__share_group_state`. Written by tools/generate_messages.py from the schema; do not edit."""
