"""Whether the files of a log are sound: every batch, and everything else that a log directory holds, against them."""
