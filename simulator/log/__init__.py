"""Log directories alone, on a disk that fails."""
