"""Lake tables that are their own checkpoint, and the proof of what they hold."""
