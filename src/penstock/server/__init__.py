"""The shell: event loop, sockets, lanes, clock, HTTP endpoint. Turns the world into node events; decides nothing."""
