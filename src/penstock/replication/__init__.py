"""A partition as leader and as follower: appends, ISR, high watermark, requests that wait, and fetch sessions."""
