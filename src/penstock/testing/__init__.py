"""The pytest fixture."""
