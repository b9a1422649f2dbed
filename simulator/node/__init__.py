"""One whole node and its clients."""
