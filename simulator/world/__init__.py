"""The world that simulated nodes live in: virtual time, disks, a network, and machines that run the real code."""
