"""Random work on a log, held against a naive model after every step: crashes and power failures too."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from support.log_workload import Workload

from penstock.log import truncation
from penstock.log.disk import Disk
from penstock.log.index import AbortedIndex
from penstock.log.names import ABORTED_INDEX
from penstock.log.producer_state import ProducerState


@pytest.mark.parametrize("seed", range(60))
def test_a_log_has_what_was_appended_and_not_cut(seed: int) -> None:
    Workload(Random(seed)).run(60)


class WithoutCuts:
    """A disk that forgets to cut the indexes of aborted transactions."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def truncate(self, path: str, size_bytes: int) -> None:
        if not path.endswith(ABORTED_INDEX):
            self._disk.truncate(path, size_bytes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


def index_is_not_cut(patch: pytest.MonkeyPatch) -> None:
    real = truncation.cut_segment
    patch.setattr(truncation, "cut_segment", lambda disk, *rest: real(WithoutCuts(disk), *rest))


def open_transactions_bound_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "last_stable_offset", lambda _, high_watermark: high_watermark)


def aborted_transactions_are_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AbortedIndex, "append", lambda *_: None)


def catches(seed: int) -> bool:
    try:
        Workload(Random(seed)).run(60)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(
    "plant", [index_is_not_cut, open_transactions_bound_nobody, aborted_transactions_are_not_noted]
)
def test_the_model_sees_what_is_planted(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(catches(seed) for seed in range(60))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(60, 460))
def test_a_log_has_what_was_appended_and_not_cut_at_length(seed: int) -> None:
    Workload(Random(seed)).run(200)
