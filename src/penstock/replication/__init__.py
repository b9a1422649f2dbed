"""A partition as leader and as follower: high watermark, leader epoch, fetch sessions."""
