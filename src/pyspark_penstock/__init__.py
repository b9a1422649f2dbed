"""Where Spark finds `format("penstock")`: it imports each package named `pyspark_*` and takes its DefaultSource."""

from penstock.spark.read.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
