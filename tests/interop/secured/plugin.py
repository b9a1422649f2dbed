"""The plugin of a secured run (`make test-secured`): the interop tests of clients, as an ordinary user over SASL_SSL.

Tests are as they are. Every broker that they start has a secured listener and an authorizer (`brokers`), every client
that goes there logs in (`clients`), and the user may do what the test's module is granted, no more (`grants`). What a
module is granted and its tests do not use is a failure of its last test, as long as all of the module ran and its
brokers are in this process, where one sees it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.secured.brokers import Brokers, Right
from interop.secured.clients import Clients
from interop.secured.grants import EVERYTHING, EXCUSED_TESTS, GRANTS, OF_KAFKA, excuse_of, grants_of, rights_in

RUN = pytest.StashKey[Brokers]()
DIRECTORY = pytest.StashKey["tempfile.TemporaryDirectory[str]"]()
ROOT = Path(__file__).parents[1]


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Changes what makes brokers and clients, before any test or its conftest.py is imported."""
    config = early_config
    config.stash[DIRECTORY] = tempfile.TemporaryDirectory(prefix="secured-")
    directory = Path(config.stash[DIRECTORY].name)
    brokers = config.stash[RUN] = Brokers(directory)
    brokers.secure_local_brokers()
    brokers.secure_clusters()
    brokers.note_rights()
    Clients(brokers, directory).secure()


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[DIRECTORY].cleanup()


def module_of(item: pytest.Item) -> str:
    """The file below tests/interop."""
    return item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else item.path.as_posix()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what cannot run so, as the table says."""
    kept, left = [], []
    for item in items:
        module = module_of(item)
        named = any(module == each and part in item.name for (each, part) in EXCUSED_TESTS)
        alone = module in GRANTS and excuse_of(module) is None and not named and not of_kafka(item)
        (kept if alone else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def of_kafka(item: pytest.Item) -> bool:
    """Whether a test is about a broker of Apache Kafka alone."""
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec is not None else ()
    return any(OF_KAFKA in (each if isinstance(each, tuple) else (each,)) for each in values)


@pytest.fixture(scope="module", autouse=True)
def _granted(request: pytest.FixtureRequest) -> Iterator[None]:
    """The user's rights, for one module."""
    module = request.path.relative_to(ROOT).as_posix()
    brokers = request.config.stash[RUN]
    grants = grants_of(module)
    failed = request.session.testsfailed
    brokers.grant(grants)
    yield
    note(f"{module}: used {told(brokers.used)}; was denied {told(brokers.denied)}")
    unused = rights_in(grants) - brokers.used
    passed = request.session.testsfailed == failed
    if passed and is_whole(request.config) and brokers.used and unused and grants is not EVERYTHING:
        pytest.fail(f"{module} is granted what it does not use: {told(unused)}", pytrace=False)


def note(text: str) -> None:
    """For who makes a row: appends to the file that SECURED_RIGHTS names."""
    if file := os.environ.get("SECURED_RIGHTS"):
        with open(file, "a") as notes:
            notes.write(text + "\n")


def is_whole(config: pytest.Config) -> bool:
    """Whether no part of the modules was left out on the command line."""
    asked = (config.getoption("keyword"), config.getoption("markexpr"), config.getoption("lf", False))
    return not any(asked) and not any("::" in each for each in config.args)


def told(rights: set[Right]) -> str:
    """Rights, as in the table."""
    return ", ".join(sorted(f"{operation.name} {resource.name}" for operation, resource in rights)) or "nothing"
