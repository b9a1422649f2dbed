"""The fixture: usable by blocking clients, gone without a trace."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import tomllib
import warnings
from collections import Counter
from pathlib import Path

import pytest

from penstock.errors import ErrorCode, RequestError
from penstock.testing.broker import LocalBroker


def descriptors() -> Counter[str]:
    """What is open, by its kind or path: clients of other tests renew their pipes meanwhile."""
    found: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        try:
            found[os.readlink(f"/proc/self/fd/{name}").partition(":[")[0]] += 1
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return found


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where brokers have their files in this test, and nobody else."""
    monkeypatch.setattr("penstock.testing.broker.memory_directory", lambda: str(tmp_path))
    return tmp_path


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to see descriptors")
def test_a_broker_leaves_no_thread_descriptor_file_or_warning(directory: Path) -> None:
    with LocalBroker() as broker:  # what Python itself opens once is open now
        broker.create_topic("first")
    gc.collect()
    before = (threading.enumerate(), descriptors(), os.listdir(directory), logging.getLogger().handlers[:])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with LocalBroker() as broker:
            broker.create_topic("clicks", partitions=3)
            assert broker.data_dir.parent == directory
            assert broker.data_dir.is_dir()
        gc.collect()
    assert (threading.enumerate(), descriptors(), os.listdir(directory), logging.getLogger().handlers[:]) == before
    assert caught == []


def test_a_failed_start_leaves_nothing_and_says_why(directory: Path) -> None:
    before = (threading.enumerate(), os.listdir(directory))
    with LocalBroker() as running, pytest.raises(Exception, match="cannot listen on PLAINTEXT"):
        LocalBroker({"listeners": f"PLAINTEXT://127.0.0.1:{running.port},CONTROLLER://127.0.0.1:0"}).start()
    assert (threading.enumerate(), os.listdir(directory)) == before


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    with LocalBroker(data_dir=tmp_path), pytest.raises(Exception, match="used twice"):
        LocalBroker(data_dir=tmp_path).start()


def test_a_refused_topic_raises_the_brokers_error(penstock_session: LocalBroker) -> None:
    with pytest.raises(RequestError) as refused:
        penstock_session.create_topic("not a topic name!")
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_two_brokers_live_side_by_side(penstock_session: LocalBroker) -> None:
    with LocalBroker() as other:
        assert other.port != penstock_session.port
        other.create_topic("same-name")
        penstock_session.create_topic("same-name")


def test_the_plugin_imports_nothing_of_penstock_until_it_is_used() -> None:
    program = "import sys, penstock.testing.plugin; print([m for m in sys.modules if m.startswith('penstock.')])"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert output.stdout.strip() == "['penstock.testing', 'penstock.testing.plugin']"


CONFTEST = """
import pytest
pytest_plugins = ["penstock.testing.plugin"]

@pytest.fixture(scope="session")
def penstock_settings():
    return {"num.partitions": "3"}
"""
TEST = """
import sys
from penstock.config.server import Settings

def test_settings(penstock, penstock_session):
    for broker in (penstock, penstock_session):
        assert broker._embedded.server.settings.num_partitions == 3
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"

def test_the_house_is_imported_as_always():
    rewritten = [name for name, module in sys.modules.items()
                 if name.startswith("penstock.") and "rewrite" in type(module.__spec__.loader).__module__]
    assert rewritten == ["penstock.testing.plugin"]
"""


def test_the_fixtures_take_settings_and_have_no_module_of_ours_rewritten(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_of_a_user.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_of_a_user.py"]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # whatever plugins are installed beside
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_only_a_tiny_package_has_a_plugin() -> None:
    """pytest rewrites each module of a package that registers a plugin, before it is imported."""
    root = Path(__file__).resolve().parents[3]
    house = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert "pytest11" not in house.get("entry-points", {})
    tiny = root / "packaging" / "pytest-penstock"
    declared = tomllib.loads((tiny / "pyproject.toml").read_text())
    assert declared["project"]["entry-points"]["pytest11"] == {"penstock": "pytest_penstock"}
    assert [path.name for path in tiny.glob("*.py")] == declared["tool"]["hatch"]["build"]["targets"]["wheel"][
        "include"
    ]
