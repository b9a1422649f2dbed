"""Reading topics into Spark: options, plans, tasks."""
