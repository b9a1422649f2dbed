"""Random work on a log, held against a naive model after every step: crashes and power failures too."""

from __future__ import annotations

from random import Random

import pytest
from support.log_workload import Workload


@pytest.mark.parametrize("seed", range(60))
def test_a_log_has_what_was_appended_and_not_cut(seed: int) -> None:
    Workload(Random(seed)).run(60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60, 460))
def test_a_log_has_what_was_appended_and_not_cut_at_length(seed: int) -> None:
    Workload(Random(seed)).run(200)
