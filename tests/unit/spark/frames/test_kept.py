"""A query's record of what it has kept, and what `verify` finds by it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from uuid import UUID

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")

import numpy as np  # noqa: E402

from penstock.cli.main import main  # noqa: E402
from penstock.errors import PenstockError  # noqa: E402
from penstock.spark.frames.options import FrameOptions  # noqa: E402
from penstock.spark.frames.positions import read_by  # noqa: E402
from penstock.spark.frames.sink import commit, opened, target_of  # noqa: E402
from penstock.spark.lake.batches import QueryBatch  # noqa: E402
from penstock.spark.lake.folding import MASK, fingerprint  # noqa: E402
from penstock.spark.lake.kept import Kept, fingerprint_of, known_partitions, verify_kept  # noqa: E402
from penstock.spark.lake.verify import PartitionVerdict  # noqa: E402
from penstock.spark.read.plan import Position  # noqa: E402
from penstock.spark.read.stream_offsets import to_json  # noqa: E402

COLUMNS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
TOPIC_ID = UUID(int=7)


@pytest.fixture(params=["delta", "iceberg"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> FrameOptions:
    return FrameOptions(str(tmp_path / "t"), request.param, checkpoint=str(tmp_path / "checkpoint"))


def planned(options: FrameOptions, number: int, end: int, *, begin: int | None = 10) -> None:
    """Spark's note that a batch will read up to an offset."""
    offsets = Path(str(options.checkpoint)) / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    told = json.dumps(to_json({("clicks", 3): Position(TOPIC_ID, end, begin)}))
    (offsets / str(number)).write_text(f"v1\n{{}}\n{told}\n-\n")


def offer(options: FrameOptions, number: int, *offsets: int | None, query: str = "q", record: bool = True) -> bool:
    """A batch, each half written by a task; a null is a row of nowhere."""
    lake = opened(options, COLUMNS)
    target = target_of(lake, COLUMNS)
    rows = [{"topic": None if each is None else "clicks", "partition": 3, "offset": each} for each in offsets]
    parts = [pa.RecordBatch.from_pylist(some, COLUMNS) for some in (rows[::2], rows[1::2]) if some]
    read = read_by(options, number, known_partitions(lake, query)) if record else ()
    return commit(lake, target, [target.write([part]) for part in parts], QueryBatch(query, number), read)


def verdict(options: FrameOptions) -> PartitionVerdict:
    (found,) = verify_kept(opened(options, COLUMNS))
    return found


def test_what_a_query_left_out_is_told_and_nothing_is_missing(options: FrameOptions) -> None:
    planned(options, 0, 11)  # a batch without rows: no commit
    planned(options, 1, 20, begin=None)
    assert offer(options, 1, 11, 13, 19, None)
    planned(options, 2, 40, begin=None)
    (Path(str(options.checkpoint)) / "offsets" / "0").unlink()  # as Spark does when it is old
    assert offer(options, 2, *range(30, 40))
    assert not offer(options, 2, *range(30, 40)), "it is recorded once"
    found = verdict(options)
    assert (found.start, found.end, found.rows, found.gaps, found.clean) == (10, 40, 13, {"filtered": 17}, True)
    assert found.topic_id == str(TOPIC_ID)
    assert len(opened(options, COLUMNS).destination().list("_penstock/kept/q")) == 2, "older records are deleted"


def test_a_row_that_comes_twice_or_from_elsewhere_is_found(options: FrameOptions) -> None:
    planned(options, 0, 20)
    offer(options, 0, 11, 13, 19)
    planned(options, 1, 30, begin=None)
    offer(options, 1, 25)
    assert verdict(options).clean
    offer(options, 0, 25, query="stranger", record=False)
    assert (verdict(options).duplicates, verdict(options).clean) == (1, False)
    offer(options, 1, 12, query="stranger", record=False)
    assert verdict(options).unlike_sealed == [(10, 30, 15, 16)]
    offer(options, 2, 99, query="stranger", record=False)
    assert verdict(options).outside_ranges == [(99, 100)]


def test_a_lost_row_is_missing_though_another_came_instead(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    options = FrameOptions(str(tmp_path / "t"), checkpoint=str(tmp_path / "checkpoint"))
    planned(options, 0, 20)
    offer(options, 0, 11, 13, 19)
    DeltaTable(options.path).delete('"offset" = 13')
    assert (verdict(options).missing, verdict(options).clean) == (1, False)
    offer(options, 0, 14, query="stranger", record=False)
    assert (verdict(options).missing, verdict(options).clean) == (0, False), "as many rows, but others"


def test_two_queries_that_share_a_partition_out_are_proved_together(options: FrameOptions) -> None:
    planned(options, 0, 20)
    offer(options, 0, *range(10, 20, 2))
    offer(options, 0, *range(11, 20, 2), query="odd")
    found = verdict(options)
    assert (found.rows, found.gaps, found.clean, sorted(found.pipelines)) == (10, {}, True, ["odd", "q"])


def test_where_reading_began_must_be_known_of_every_source(options: FrameOptions, tmp_path: Path) -> None:
    planned(options, 0, 20, begin=None)
    assert not read_by(options, 0)
    planned(options, 0, 20)
    assert read_by(options, 0) == [Kept("clicks", str(TOPIC_ID), 3, 10, 20)]
    path = tmp_path / "checkpoint" / "offsets" / "0"
    lines = path.read_text()
    for broken in (lines.replace("v1", "v2"), lines.replace("-\n", '{"rate": 1}\n'), lines + lines.splitlines()[2], ""):
        path.write_text(broken)
        assert not read_by(options, 0), broken
    assert not read_by(options, 1)


def test_a_query_that_wrote_before_there_were_records_has_none(options: FrameOptions) -> None:
    offer(options, 0, 11, record=False)
    planned(options, 1, 20)
    offer(options, 1, 12)
    assert verify_kept(opened(options, COLUMNS)) == []


def test_a_batch_without_a_record_ends_the_record_and_is_no_false_alarm(options: FrameOptions) -> None:
    planned(options, 0, 20)
    offer(options, 0, 11, 13)
    assert verdict(options).clean
    offer(options, 1, 25, record=False)  # its checkpoint did not say what was read
    planned(options, 2, 40, begin=None)
    offer(options, 2, 33)
    with pytest.raises(PenstockError, match="query q has written rows of which its checkpoint did not say"):
        verdict(options)
    assert not known_partitions(opened(options, COLUMNS), "q")


def test_rows_of_another_topic_than_the_query_reads_are_not_recorded(options: FrameOptions) -> None:
    planned(options, 0, 20)
    text = Path(str(options.checkpoint), "offsets", "0").read_text()
    Path(str(options.checkpoint), "offsets", "0").write_text(text.replace("clicks", "prod.clicks"))
    offer(options, 0, 11, 13)  # the query cut the topic's name
    assert verify_kept(opened(options, COLUMNS)) == []


def test_a_checkpoint_that_cannot_be_read_for_now_is_an_error_and_ends_no_record(options: FrameOptions) -> None:
    planned(options, 0, 20)
    path = Path(str(options.checkpoint), "offsets", "1")
    path.mkdir()  # stands for a disk or a store that does not answer
    with pytest.raises(PenstockError, match=r"the checkpoint .* cannot be read: "):
        read_by(options, 1)


def test_a_record_that_was_changed_and_a_topic_made_anew_are_said(options: FrameOptions) -> None:
    planned(options, 0, 20)
    offer(options, 0, 11)
    (file,) = Path(options.path).glob("_penstock/kept/q/*.json")
    sound = file.read_bytes()
    file.write_bytes(sound.replace(b'"rows": 1', b'"rows": 2'))
    with pytest.raises(PenstockError, match="is damaged: a commit of the table names it"):
        verdict(options)
    file.write_bytes(sound)
    lake = opened(options, COLUMNS)
    other = [Kept("clicks", str(UUID(int=8)), 3, 0, 5)]
    target = target_of(lake, COLUMNS)
    commit(lake, target, [target.write([pa.RecordBatch.from_pylist([], COLUMNS)])], QueryBatch("q", 1), other)
    row = pa.RecordBatch.from_pylist([{"topic": "clicks", "partition": 3, "offset": 2}], COLUMNS)
    commit(lake, target, [target.write([row])], QueryBatch("q", 1), other)
    with pytest.raises(PenstockError, match="topic clicks was made anew while a query read it"):
        verdict(options)


def test_offsets_have_the_fingerprint_of_their_runs() -> None:
    chance = random.Random(17)
    for _ in range(20):
        offsets = chance.sample(range(2**40), 50) + list(range(5, 5 + chance.randrange(9)))
        wanted = sum(fingerprint(each, each + 1) for each in offsets) & MASK
        assert fingerprint_of(np.array(offsets, np.int64)) == wanted


def test_the_command_proves_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = FrameOptions(str(tmp_path / "t"), checkpoint=str(tmp_path / "checkpoint"))
    planned(options, 0, 20)
    offer(options, 0, 11, 13, 19)
    assert main(["verify", options.path]) == 0
    told = capsys.readouterr().out
    assert "clean: 3 rows in 1 partition" in told
    assert "7 filtered" in told
    assert main(["verify", options.path, "--broker", "127.0.0.1:1", "--values", "none"]) == 2
