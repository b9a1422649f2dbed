"""Writing rows of Spark to topics: options, rows, sending, the sink."""
