"""The repair of a quarantine brings no row back that was erased from the table, also where gaps are sealed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("duckdb", reason="needs penstock[sql]")

from support.lake_tables import CLICKS, opened, rows, written  # noqa: E402

from penstock.spark.lake import folding  # noqa: E402
from penstock.spark.lake.erasure import Erasure  # noqa: E402
from penstock.spark.lake.open import open_table  # noqa: E402
from penstock.spark.lake.reading import batches_of  # noqa: E402
from penstock.spark.lake.records import ERASED, RECORD_SCHEMA, Gap  # noqa: E402
from penstock.spark.load.plan import Extent  # noqa: E402
from penstock.spark.load.repair import repair  # noqa: E402
from penstock.spark.load.tables import Target  # noqa: E402
from penstock.spark.load.work import QUARANTINE_SCHEMA, QUARANTINED  # noqa: E402
from penstock.spark.read import fetching  # noqa: E402

VALUE = pa.field("n", pa.int64())
COLUMNS = pa.schema([*(field for field in RECORD_SCHEMA if field.name != "value"), VALUE])
BAD = (1, 4, 7)
"""Offsets whose value is no JSON."""
ALL = range(10)


@pytest.mark.parametrize("sealed", [False, True])
def test_no_erased_row_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: bool) -> None:
    if sealed:
        monkeypatch.setattr(folding, "LAKE_GAPS_PER_PIPELINE", 2)
    lake = opened(tmp_path / "table", "delta", columns=COLUMNS)
    good = rows([offset for offset in ALL if offset not in BAD]).drop_columns(["value"])
    good = good.append_column(VALUE, pa.array([1] * good.num_rows))
    gaps = [Gap(CLICKS, offset, offset + 1, QUARANTINED) for offset in BAD]
    lake.commit(written(lake, good), {CLICKS: 0}, {CLICKS: 10}, gaps)
    Erasure(open_table(lake.uri, "erase", create=False), "decode(key) in ('k2', 'k3')").run()
    lake.refresh()
    assert any(ERASED in each.reasons for each in lake.loaded().partitions[CLICKS].sealed) == sealed

    quarantine = opened(tmp_path / "quarantine", "delta", columns=QUARANTINE_SCHEMA)

    def fetched(_connect: Any, ranges: Any, **_more: Any) -> Iterator[Any]:
        for each in ranges:
            yield each, SimpleNamespace(batch=SimpleNamespace(num_rows=each.end - each.start))

    def records(wanted: Any, _got: Any) -> Any:
        found = rows(range(wanted.start, wanted.end))
        values = [b"no" if offset in BAD else b'{"n":1}' for offset in range(wanted.start, wanted.end)]
        at = found.schema.get_field_index("value")
        return found.set_column(at, found.schema.field(at), pa.array(values))

    monkeypatch.setattr(fetching, "decoded", fetched)
    monkeypatch.setattr(fetching, "record_batch", records)
    target = Target(lake, quarantine)
    plan = {"name": "json", "add_fields": False}
    how: dict[str, Any] = {"connect": None, "format_plan": plan, "fail_on_data_loss": True}
    assert repair(target, target.behind(), {CLICKS: Extent(0, 10)}, {}, **how) == len(BAD)
    quarantine.refresh()
    (batch,) = batches_of(quarantine, ["offset", "reason"])
    assert batch.column("offset").to_pylist() == list(BAD)
    assert not [why for why in batch.column("reason").to_pylist() if "when it was loaded" in why]
