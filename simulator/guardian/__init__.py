"""Guardian in simulated worlds: its nodes on machines of their own, and those who ask them."""
