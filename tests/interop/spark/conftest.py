"""One Spark session for all tests of this folder: starting one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def java() -> None:
    """Skips tests whose Spark runs in processes of their own, where Spark or a Java is missing."""
    pytest.importorskip("pyspark", reason="needs penstock[spark]")
    from penstock.spark.java import find_java

    try:
        find_java()
    except PenstockError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[SparkSession]:
    """A local session on two cores; the test is skipped where Spark or a Java is missing."""
    from penstock.spark.session import session

    spark = session("penstock tests", master="local[2]")
    yield spark
    spark.stop()
