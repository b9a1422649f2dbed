"""A partition on disk: segments, indexes, producer state, recovery, retention. Works on a Disk that it is given.

`log` is one partition, `manager` all those of a node. `compaction` is the log cleaner, `verification` tells whether
files are sound, `rebuilding` makes indexes anew, `legacy` reads the logs of brokers of before Kafka 0.11.
"""
