"""The simulator: the real pure code on virtual time, with simulated disks, crashes and faults, all from one seed.

`python -m simulator`, in the project's root, runs seeds (docs/reference/simulator.md). `world` is what nodes live in:
time, disks, a network, machines. Above it are the workloads with their checkers: `log`, `raft` and `node` for a part
alone, `cluster` for whole clusters, `compacted` and `groups` for those with compacted topics and with consumer groups.
`worlds` names them all.
"""
