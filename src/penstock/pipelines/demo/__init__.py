"""The main job on real input: this machine's operational data and the broker's own activity, into a lake, verified."""
