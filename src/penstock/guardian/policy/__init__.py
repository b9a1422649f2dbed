"""Policies: plain Python files of users that say which moves may be made. Each runs in a process of its own."""
