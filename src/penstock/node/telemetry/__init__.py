"""What a broker knows of itself, for whoever governs it: counted as it happens, gathered when somebody asks.

- `partitions.py`, `clients.py`: counters of partitions and clients. A request costs an addition or two; nobody is kept
  for ever, and the sums of whoever goes stay.
- `disk_reads.py`: what was not in the page cache.
- `machine.py`: what only the shell knows: the processor, memory, disks and lanes.
- `blocks.py`: the rows of each block, from the parts of the node. `table.py`: which of them have changed since a
  caller asked last. `encoding.py`: their bytes (`penstock.protocol.telemetry`).
- `pull.py`: an answer, in steps.

Nothing is gathered while nobody asks.
"""
