"""The JSON of a summary: tables keep it for years, so every layout that was ever written is read."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.errors import PenstockError
from penstock.records.run import SeenEpoch
from penstock.spark.lake.folding import LAYOUT, Folded, Summary
from penstock.spark.lake.records import Sealed, TopicPartition

CLICKS = TopicPartition("clicks", UUID(int=1), 0)
PARTITION = [0, 0, 100, [[98, 99, "control"]], [[0, 50, 7, {"aborted": 2}]]]
SEALED = Sealed(0, 50, 7, {"aborted": 2})


def text(layout: int, partition: list[object]) -> str:
    topics = [{"topic": "clicks", "topic_id": str(CLICKS.topic_id), "partitions": [partition]}]
    return json.dumps({"layout": layout, "pipeline": "load", "sequence": 3, "topics": topics})


def test_progress_of_before_there_were_epochs_is_read_and_goes_on_in_the_new_layout() -> None:
    summary = Summary.from_json(text(1, PARTITION))
    assert summary.partitions == {CLICKS: Folded(0, 100, [(98, 99, "control")], [SEALED])}
    grown = summary.after({CLICKS: 100}, {CLICKS: 120}, [], {CLICKS: SeenEpoch(4, 120)})
    again = Summary.from_json(grown.to_json())
    assert again.partitions == {CLICKS: Folded(0, 120, [(98, 99, "control")], [SEALED], SeenEpoch(4, 120))}
    assert again.sequence == 4


def test_progress_of_a_later_layout_is_refused() -> None:
    with pytest.raises(PenstockError, match=f"layout {LAYOUT + 1}: a later Penstock wrote it"):
        Summary.from_json(text(LAYOUT + 1, [*PARTITION, None, [], "?"]))
