"""The pytest fixture and the simulator."""
