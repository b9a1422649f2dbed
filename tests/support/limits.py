"""How long a test may take before it is ended as hanging: many times what it needs on a busy machine.

No verdict on speed: what is to be fast is measured in `bench/`. Set-up counts, and the first test of a kind may fetch
Kafka's jars or start a Spark.
"""

from __future__ import annotations

import pytest

UNIT_S = 120
INTEROP_S = 900
LONG_S = 5_400
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
