"""The pytest plugin: fixtures that hand a test a real, wire-compatible broker on a free port of the loopback.

`penstock` gives each test its own broker, `penstock_session` one broker to the whole run (make topics with names of
your own there). Both yield a `penstock.testing.broker.LocalBroker`: `bootstrap`, `port`, `data_dir`,
`create_topic(...)`. The broker runs in a thread of the test's process, without fsync, in a temporary directory, and
leaves nothing behind.

pytest imports this module at its start whether or not a test uses it, so it imports nothing of Penstock until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.broker import LocalBroker


@pytest.fixture
def penstock() -> Iterator[LocalBroker]:
    """A broker of the test's own, started before it and gone after it."""
    from penstock.testing.broker import LocalBroker

    with LocalBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def penstock_session() -> Iterator[LocalBroker]:
    """One broker for the whole session: faster, shared, so each test uses topics of its own."""
    from penstock.testing.broker import LocalBroker

    with LocalBroker() as broker:
        yield broker
