"""DataFrames into lake tables: `format("penstock-lake")`."""
