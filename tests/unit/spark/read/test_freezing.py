"""A worker of PySpark's keeps what it has loaded out of the collection that it runs after every task."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.spark.read.fetching import freeze_loaded


@pytest.fixture
def frozen_before() -> Iterator[int]:
    before = gc.get_freeze_count()
    freeze_loaded.cache_clear()
    yield before
    freeze_loaded.cache_clear()
    gc.unfreeze()


def test_in_a_worker_what_is_loaded_stays(frozen_before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))
    freeze_loaded()
    assert gc.get_freeze_count() > frozen_before + 10_000


def test_any_other_process_is_left_alone(frozen_before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("somebody.elses", None))
    freeze_loaded()
    assert gc.get_freeze_count() == frozen_before
