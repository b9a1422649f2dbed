"""The name of the consumer group that shows how far a load is."""

from __future__ import annotations

import pytest

from penstock.spark.load.options import LoadOptions


@pytest.mark.parametrize(
    ("table", "pipeline", "group", "name"),
    [
        ("lake/clicks", "load", None, "load-clicks"),
        ("/srv/lake/clicks/", "load", None, "load-clicks"),
        ("s3://bucket/lake/clicks", "web", None, "web-clicks"),
        ("s3://bucket", "load", None, "load-bucket"),
        ("lake/clicks", "clicks", None, "clicks"),
        ("lake/clicks", "load", "reports", "reports"),
        ("lake/clicks", "load", "", ""),
    ],
)
def test_it_is_the_pipeline_and_the_table_unless_it_is_given(
    table: str, pipeline: str, group: str | None, name: str
) -> None:
    assert LoadOptions("127.0.0.1:9092", ["clicks"], table, pipeline, group=group).group_id == name
