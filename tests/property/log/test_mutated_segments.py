"""Logs with something changed in their files: nothing wrong is served, nothing whole is lost, nothing breaks."""

from __future__ import annotations

from collections import Counter

import pytest
from support.mutated_logs import run_case

from penstock.errors import InvalidRecordError
from penstock.log import lookup, recovery, retiring, segment_scan, segments
from penstock.log.compaction import scan, transactions

CASES_PER_TEST = 50


@pytest.mark.parametrize("first", range(1, 501, CASES_PER_TEST))
def test_whatever_is_changed_in_the_files_of_a_log(first: int) -> None:
    for seed in range(first, first + CASES_PER_TEST):
        run_case(seed)


def test_the_cases_reach_what_they_are_to_test() -> None:
    outcomes = sum((run_case(seed) for seed in range(1, 121)), Counter[str]())
    for happening in (
        *("records", "reads", "look-ups", "cleaned", "cut", "whole", "kept aside"),
        *("batches with a wrong checksum", "reads refused", "look-ups refused", "not cleaned", "retired"),
        *("opened at once", "asked for a recovery"),
    ):
        assert outcomes[happening], happening


def is_found(first: int = 1, end: int = 101) -> bool:
    """Whether one of these cases breaks a rule, or raises what nothing should raise."""
    for seed in range(first, end):
        try:
            run_case(seed)
        except (AssertionError, InvalidRecordError):
            return True
    return False


def test_planted_an_index_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "check_start", lambda *_, **__: None)
    assert is_found(451, 501), "it takes an index that leads to a batch of another offset"


def test_planted_a_recovery_trusts_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_scan, "check_crc", lambda *_: None)
    assert is_found()


def test_planted_a_recovery_trusts_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_scan, "in_order", lambda batches, *_: batches)
    assert is_found()


def test_planted_what_is_cut_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "lost_batches", lambda *_: None)
    assert is_found()


def test_planted_the_cleaner_trusts_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "computed_crc", lambda data, *_: scan.read_header(data).crc)
    assert is_found()


def test_planted_the_cleaner_believes_indexes_of_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions.CleanedTransactions, "_differs", lambda *_: None)
    assert is_found(601, 651), "it takes one that only the markers tell from a right one"


def test_planted_retention_believes_time_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (retiring, segments):
        monkeypatch.setattr(module, "must_be_checked", lambda *_: False)
    assert is_found(451, 501)
