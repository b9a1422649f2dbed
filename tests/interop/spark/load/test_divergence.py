"""A log that was cut behind the load, as an unclean election cuts it: found, said or recorded, and shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.spark.load.cutting import TOPIC, Cut
from interop.spark.load.support import caught_up, options, total

from penstock.cli.main import main
from penstock.spark.lake.verify import PartitionVerdict, verify
from penstock.spark.load.load import Load
from penstock.spark.load.tables import Target
from penstock.spark.read.plan import DataLossError

LOST = "clicks-0: the brokers lost what they had from 80 on"


@pytest.fixture
def cut(tmp_path: Path) -> Iterator[Cut]:
    made = Cut(tmp_path)
    yield made
    made.broker.stop()


def load(cut: Cut, tmp_path: Path, table_format: str = "delta", *, allow: bool = False) -> PartitionVerdict:
    """Loads to the end; the verdict on the table."""
    wanted = options(cut.broker, TOPIC, tmp_path / "lake", table_format=table_format, fail_on_data_loss=not allow)
    with Load(None, wanted) as running:
        caught_up(running)
        (verdict,) = verify(running.lake)
    assert verdict.clean, verdict
    return verdict


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_log_that_was_cut_and_grew_beyond_the_table_is_not_taken_for_its_continuation(
    cut: Cut, tmp_path: Path, table_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cut.publish(20)
    assert load(cut, tmp_path, table_format).rows == 100
    cut.cut()
    cut.publish(40)
    with pytest.raises(DataLossError, match=f"{LOST} .*, and the table has it up to 100"):
        load(cut, tmp_path, table_format)
    verdict = load(cut, tmp_path, table_format, allow=True)
    assert (verdict.rows, verdict.end, verdict.diverged_ranges, verdict.gaps) == (120, 120, [(80, 100)], {})
    cut.publish(10)
    assert load(cut, tmp_path, table_format).rows == 130
    assert (
        main(["verify", str(tmp_path / "lake"), "--table-format", table_format, "--broker", cut.broker.bootstrap]) == 0
    )
    assert "clicks-0: diverged 80-99" in capsys.readouterr().out
    assert main(["lake", "show", str(tmp_path / "lake"), "--table-format", table_format]) == 0
    assert "diverged: 80 to 100" in capsys.readouterr().out


def test_a_log_that_ends_before_the_table_is_an_error_or_waited_for(cut: Cut, tmp_path: Path) -> None:
    cut.publish(20)
    load(cut, tmp_path)
    cut.cut()
    with pytest.raises(DataLossError, match=LOST):
        load(cut, tmp_path)
    verdict = load(cut, tmp_path, allow=True)
    assert (verdict.rows, verdict.end, verdict.diverged_ranges) == (100, 100, [(80, 100)])
    assert load(cut, tmp_path).diverged_ranges == [(80, 100)], "once it is recorded, it stops nothing"
    cut.publish(10)
    assert load(cut, tmp_path).rows == 100
    cut.publish(30)
    verdict = load(cut, tmp_path)
    assert (verdict.rows, verdict.end, verdict.diverged_ranges) == (120, 120, [(80, 100)])


def test_a_log_that_is_cut_while_a_job_reads_is_read_again(cut: Cut, tmp_path: Path) -> None:
    """The first half of the job is of the old leader, whose records nobody has any more when it commits."""
    load(cut, tmp_path)
    cut.publish(20)
    with Load(None, options(cut.broker, TOPIC, tmp_path / "lake")) as running:
        check = running._check_same_logs

        def cut_first(*arguments: object) -> None:
            running._check_same_logs = check  # type: ignore[method-assign]
            running._runner.run(disconnect(running))
            cut.cut()
            check(*arguments)  # type: ignore[arg-type]

        running._check_same_logs = cut_first  # type: ignore[method-assign]
        assert caught_up(running) == 0
        (verdict,) = verify(running.lake)
    assert (verdict.clean, verdict.rows, verdict.end, verdict.diverged_ranges) == (True, 80, 80, [])


async def disconnect(load: Load) -> None:
    load._client.close()


def test_a_reload_that_goes_on_after_its_log_was_cut_says_so_and_records_it(cut: Cut, tmp_path: Path) -> None:
    cut.publish(20)
    reload = {"from_ms": 0, "offsets_per_job": 90}
    with Load(None, options(cut.broker, TOPIC, tmp_path / "lake", **reload)) as running:
        assert running.run_job() is not None
    cut.cut()
    cut.publish(40)
    stopped = Load(None, options(cut.broker, TOPIC, tmp_path / "lake", **reload))
    with stopped, pytest.raises(DataLossError, match=f"{LOST} .*, and the table has it up to 90"):
        stopped.run_job()
    with Load(None, options(cut.broker, TOPIC, tmp_path / "lake", fail_on_data_loss=False, **reload)) as running:
        caught_up(running)
        (verdict,) = verify(running.lake)
    assert (verdict.clean, verdict.rows, verdict.end, verdict.diverged_ranges) == (True, 120, 120, [(80, 90)])


def test_a_quarantine_gets_no_record_that_came_in_the_place_of_a_lost_one(
    cut: Cut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load died between the commits of the table and of its quarantine, and the log was cut before the next."""
    as_json = {"format": "json"}
    with Load(None, options(cut.broker, TOPIC, tmp_path / "lake", **as_json)) as running:
        caught_up(running)  # all 80 are no JSON
        cut.publish(20)

        def dies(*arguments: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Target, "commit_quarantine", dies)
        with pytest.raises(KeyboardInterrupt):
            caught_up(running)
        monkeypatch.undo()
    cut.cut()
    cut.publish(40)
    with Load(None, options(cut.broker, TOPIC, tmp_path / "lake", **as_json)) as running:
        with pytest.raises(DataLossError, match=LOST):
            running.run_job()
        assert verify(running.quarantines[running.lake.uri])[0].rows == 80
    with Load(None, options(cut.broker, TOPIC, tmp_path / "lake", fail_on_data_loss=False, **as_json)) as running:
        caught_up(running)
        (beside,) = verify(running.quarantines[running.lake.uri])
    assert (beside.clean, beside.rows, beside.end, beside.gaps) == (True, 100, 120, {"deleted": 20})


def test_a_leader_that_is_elected_in_order_cuts_nothing(cut: Cut, tmp_path: Path) -> None:
    for records in (20, 5, 5):
        cut.publish(records)
        load(cut, tmp_path)
        cut.restart()
    assert load(cut, tmp_path).rows == 110
    assert total(verify_again(cut, tmp_path)) == 110


def verify_again(cut: Cut, tmp_path: Path) -> list[PartitionVerdict]:
    with Load(None, options(cut.broker, TOPIC, tmp_path / "lake")) as running:
        return verify(running.lake)
