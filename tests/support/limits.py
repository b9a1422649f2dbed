"""How long a test may take before it is ended as hanging: many times what it needs on a busy machine.

No verdict on speed: what is to be fast is measured in `bench/`. Set-up counts, and the first test of a kind may fetch
Kafka's jars or start a Spark.

pytest-timeout ends a test by a signal, which Python handles only between bytecodes: a C library that waits and holds
the GIL is never interrupted. Therefore a C thread of faulthandler's, which needs no GIL, ends the whole process if a
test is still there some time after its limit. It prints all stacks; pytest-xdist reports the test as failed and starts
another process for the others. Without xdist the run ends there.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

UNIT_S = 120
INTEROP_S = 900
LONG_S = 5_400
MARGIN_S = 60
"""How long after a test's limit its process is ended. What pytest-timeout has ended needs some time to clean up."""
STDERR = os.dup(2)
"""Where stderr leads when no test captures it: the stacks of a process that ends are to be seen."""
SHORT = ("tests/unit/", "tests/property/")
"""Where tests run in this process, without a network or another program."""


def limit(item: pytest.Item) -> None:
    """Sets the test's limit, unless it has one of its own (`pytest.mark.timeout`)."""
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(limit_s(item)))


def limit_s(item: pytest.Item) -> int:
    """The limit in seconds that comes with the test's kind."""
    if item.get_closest_marker("long") is not None:
        return LONG_S
    is_short = item.nodeid.startswith(SHORT) and item.get_closest_marker("slow") is None
    return UNIT_S if is_short else INTEROP_S


@contextmanager
def guarded(item: pytest.Item) -> Iterator[None]:
    """Ends the process if what happens inside takes `MARGIN_S` longer than the test's limit."""
    marker = item.get_closest_marker("timeout")
    limit = marker.args[0] if marker and marker.args else limit_s(item)
    faulthandler.dump_traceback_later(limit + MARGIN_S, exit=True, file=STDERR)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
