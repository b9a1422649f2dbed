"""Where Spark finds `format("penstock-lake")`: it takes the DefaultSource of each package named `pyspark_*`."""

from penstock.spark.frames.source import LakeTables as DefaultSource

__all__ = ["DefaultSource"]
