"""Topics into lake tables, exactly once, as a loop of bounded Spark jobs."""
