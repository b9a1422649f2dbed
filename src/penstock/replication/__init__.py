"""A partition as its leader keeps it: appends, the high watermark, who waits for it, and fetch sessions."""
