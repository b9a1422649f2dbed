"""pytest fixtures that hand a test a real, Kafka-compatible broker on a free port of the loopback.

`penstock` gives each test its own broker, `penstock_session` one broker to the whole run (make topics with names of
your own there). Both yield a `penstock.testing.broker.LocalBroker`: `bootstrap`, `port`, `data_dir`,
`create_topic(...)`. The broker runs in a thread of the test's process, without fsync, in a temporary directory, and
leaves nothing behind. A fixture `penstock_settings` of your own, of the session's scope, gives the brokers settings.
`penstock_secure` gives a test a `penstock.testing.secure.SecureBroker`, whose clients log in over TLS and need rights.

The package pytest-penstock makes pytest load these by itself: one of its own, since pytest rewrites every module of a
package that registers a plugin. Without it, `pytest_plugins = ["penstock.testing.plugin"]` in a conftest.py does.
pytest imports this module at its start whether or not a test uses it, so it imports nothing of Penstock until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.broker import LocalBroker
    from penstock.testing.secure import SecureBroker


@pytest.fixture(scope="session")
def penstock_settings() -> Mapping[str, str]:
    """Settings of the brokers by Kafka's names, over those of a small local node. Override it in a conftest.py."""
    return {}


@pytest.fixture
def penstock(penstock_settings: Mapping[str, str]) -> Iterator[LocalBroker]:
    """A broker of the test's own, started before it and gone after it."""
    from penstock.testing.broker import LocalBroker

    with LocalBroker(penstock_settings) as broker:
        yield broker


@pytest.fixture
def penstock_secure(penstock_settings: Mapping[str, str]) -> Iterator[SecureBroker]:
    """A broker of the test's own with TLS, logins and ACLs. Needs the extra `security` of Penstock."""
    from penstock.testing.secure import SecureBroker

    with SecureBroker(penstock_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def penstock_session(penstock_settings: Mapping[str, str]) -> Iterator[LocalBroker]:
    """One broker for the whole session: faster, shared, so each test uses topics of its own."""
    from penstock.testing.broker import LocalBroker

    with LocalBroker(penstock_settings) as broker:
        yield broker
