"""A model as users keep it: a directory of Parquet files. Whatever is wrong with one is said with file and row."""
