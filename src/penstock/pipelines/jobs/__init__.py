"""The pipelines that come with Penstock: plain PySpark functions to copy and change."""
