"""The simulator: the real pure code on virtual time, with simulated disks, crashes and faults, all from one seed."""
