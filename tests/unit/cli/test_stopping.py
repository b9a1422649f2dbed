"""Ctrl-C and SIGTERM as something to look at between two steps, not as an exception in the middle of one."""

from __future__ import annotations

import os
import signal

import pytest

from penstock.cli.stopping import SIGNALS, stopped_by_signals

LONG_S = 3600.0
"""Longer than a test may take."""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_sets_it_once_and_ends_every_wait(number: signal.Signals) -> None:
    heard = []
    with stopped_by_signals(lambda: heard.append(number)) as stop:
        assert not stop.is_set()
        assert not stop.wait(0.0)
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert stop.wait(LONG_S)
        assert stop.wait(LONG_S)
        assert stop.is_set()
    assert heard == [number]


def test_a_wait_that_is_under_way_ends_with_the_signal() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with stopped_by_signals() as stop:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        try:
            assert stop.wait(LONG_S)
        finally:
            signal.signal(signal.SIGALRM, before)


def test_what_handled_the_signals_before_handles_them_after() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with stopped_by_signals():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before
