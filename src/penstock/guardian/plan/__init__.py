"""The planner: from arrays to a plan, without a cluster, a clock or a file. Pure; numpy and numba are its tools."""
