"""The log cleaner's pass over one log: keeps the last record of each key. See `compaction.cleaner`."""
