"""Records of the transaction coordinator, `__transaction_state`. Written by tools/generate_messages.py from the schema; do not edit."""
