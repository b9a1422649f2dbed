"""What a broker knows of itself, for whoever governs it: counted as it happens, gathered when somebody asks.

- `clients.py`, `client_counters.py`: counters of clients (those of partitions are in `replication.traffic`). A request
  costs an addition or two; nobody is kept for ever, and the sums of whoever goes stay.
- `disk_reads.py`: what was not in the page cache.
- `machine.py`: what only the shell knows: the processor, memory, disks and lanes.
- `blocks.py`: the rows of each block, from the parts of the node. `table.py`: which of them have changed since a
  caller asked last. `encoding.py`: their bytes (`penstock.protocol.telemetry`).
- `pull.py`: an answer, in steps. `telemetry.py`: what a node keeps for all this.

Nothing is gathered while nobody asks.
"""
