"""One broker or controller as a state machine: requests, timers and completions in; responses and operations out."""
