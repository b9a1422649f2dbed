"""A simulated cluster: its clients and what they remember, the faults it suffers, the rules it must keep."""
