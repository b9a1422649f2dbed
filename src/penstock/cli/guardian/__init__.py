"""`penstock guardian`."""
