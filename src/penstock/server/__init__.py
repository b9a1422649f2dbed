"""The shell: event loop, sockets, lanes, clock, HTTP endpoint. Maps the world to node events, decides nothing."""
