"""A partition on disk: segments, indexes, producer state, recovery, retention. Works on a Disk that it is given."""
