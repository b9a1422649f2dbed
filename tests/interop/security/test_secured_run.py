"""The table of a secured run (`interop.secured.grants`) leaves no test of a client out unseen; a sample of it runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from interop.secured.grants import EXCUSED, EXCUSED_TESTS, GRANTS, SAMPLE, acls_of, excuse_of

from penstock.protocol.acls import AclOperation, PatternType, ResourceType

INTEROP = Path(__file__).parents[1]
STARTS_A_BROKER = re.compile(r"LocalBroker\(|penstock_session|[^a-z]Cluster\(|three_nodes|three_racks|place: Place")
"""How a module says that it has a broker of Penstock."""
TIMEOUT_S = 600


def modules() -> set[str]:
    """The modules of interop tests that have a broker of Penstock."""
    files = (path for path in INTEROP.rglob("test_*.py") if STARTS_A_BROKER.search(path.read_text()))
    return {path.relative_to(INTEROP).as_posix() for path in files}


def test_every_module_with_a_broker_is_in_the_table_or_says_why_not() -> None:
    missing = {module for module in modules() if module not in GRANTS and excuse_of(module) is None}
    assert missing == set()


def test_the_table_has_no_row_for_what_is_not_there() -> None:
    there = {path.relative_to(INTEROP).as_posix() for path in INTEROP.rglob("*")}
    named = {*GRANTS, *SAMPLE, *(each.removesuffix("/") for each in EXCUSED), *(module for module, _ in EXCUSED_TESTS)}
    assert named - there == set()
    assert not GRANTS.keys() & EXCUSED.keys()
    assert set(SAMPLE) <= GRANTS.keys()


def test_grants_become_acls() -> None:
    first, second, third, last = acls_of("User:a", {"topic:t-*": "READ WRITE", "topic:*": "CREATE", "cluster": "ALTER"})
    assert first[:3] == (ResourceType.TOPIC, "t-", PatternType.PREFIXED)
    assert (first.operation, second.operation) == (AclOperation.READ, AclOperation.WRITE)
    assert third[:3] == (ResourceType.TOPIC, "*", PatternType.LITERAL)
    assert last[:3] == (ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)


@pytest.mark.slow
def test_a_sample_of_tests_passes_as_an_ordinary_user() -> None:
    """Small modules of several clients; `make test-secured` runs all."""
    done = secured_run("--sample", "-m", "not long")
    assert done.returncode == 0, done.stdout[-8000:]
    assert re.search(r"\d+ passed", done.stdout), done.stdout


@pytest.mark.slow
def test_a_right_that_is_lacking_fails_the_tests_that_need_it(tmp_path: Path) -> None:
    """The check itself: without its rights a module does not pass."""
    module, notes = "node/test_transactions_of_clients.py", tmp_path / "rights"
    lacking = {"SECURED_WITHOUT": "WRITE", "SECURED_RIGHTS": str(notes)}
    done = secured_run(module, "-k", "librdkafka", environment=lacking)
    assert done.returncode == 1, done.stdout[-8000:]
    assert "TRANSACTIONAL_ID" in notes.read_text().partition("was denied")[2]


def secured_run(*words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A run in a process of its own."""
    root = INTEROP.parents[1]
    command = [sys.executable, "-m", "interop.secured", "-p", "no:cacheprovider", "-p", "no:randomly", *words]
    paths = os.pathsep.join([str(root / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    given = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        command,
        cwd=root,
        env={**given, "PYTHONPATH": paths, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
