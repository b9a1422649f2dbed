"""The log directories of a node as the server finds them: those that cannot be used are left alone, and named."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from support.file_systems import Mount

from penstock.config.server import Settings
from penstock.errors import ConfigError, StorageError
from penstock.log.meta_properties import FILE
from penstock.server.directories import Directories, format_storage

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
NOBODY = 65_534
OTHER_CLUSTER_ID = "XQ3xXQ3xRfWTb1cQ8RBv5A"


def settings_of(*paths: Path) -> Settings:
    return Settings.from_properties({
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:0",
        "log.dirs": ",".join(map(str, paths)),
    })  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Two formatted directories."""
    made = settings_of(tmp_path / "a", tmp_path / "b")
    format_storage(made, CLUSTER_ID, Random(1), 0, durable=False)
    return made


def error_of(settings: Settings) -> OSError:
    """Why the second directory cannot be used; the first can."""
    directories = Directories(settings, durable=False)
    directories.close()
    first, second = directories.all
    assert first.error is None
    assert second.error is not None
    return second.error


def test_the_empty_place_of_a_mount_is_left_as_it_is(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").mkdir()
    assert str(error_of(settings)) == (
        "it has no meta.properties: mount its disk and start again, or, if it is new, format it with "
        "`penstock storage format --ignore-formatted`"
    )
    assert list((tmp_path / "b").iterdir()) == []


def test_a_directory_that_does_not_exist_is_not_made(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    assert str(error_of(settings)).startswith("it does not exist: mount its disk")
    assert not (tmp_path / "b").exists()


def test_a_file_is_no_directory(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").touch()
    assert error_of(settings).errno == errno.ENOTDIR


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    made = Mount(tmp_path / "content", tmp_path / "b")
    yield made
    made.unmount()


def test_a_file_system_that_is_read_only(tmp_path: Path, mount: Mount) -> None:
    mount.mount()
    settings = settings_of(tmp_path / "a", tmp_path / "b")
    format_storage(settings, CLUSTER_ID, Random(1), 0, durable=False)
    Directories(settings, durable=False).close()
    mount.unmount()
    mount.mount("ro")
    assert error_of(settings).errno == errno.EROFS


def test_only_the_owner_reads_the_metadata_log(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "a")
    format_storage(settings, CLUSTER_ID, Random(1), 0, durable=False)
    log, start = tmp_path / "a/__cluster_metadata-0", tmp_path / "a/bootstrap.checkpoint"
    assert (log.stat().st_mode & 0o777, start.stat().st_mode & 0o777) == (0o700, 0o600)
    log.chmod(0o755)
    start.chmod(0o644)  # as older versions made them
    Directories(settings, durable=False).close()
    assert (log.stat().st_mode & 0o777, start.stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that every user may reach, unlike those below `tmp_path`."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


@contextmanager
def as_nobody() -> Iterator[None]:
    """With the rights of a user who is not root, as root may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_directory_that_this_user_may_not_read(open_place: Path) -> None:
    settings = settings_of(open_place / "a", open_place / "b")
    with as_nobody():
        format_storage(settings, CLUSTER_ID, Random(1), 0, durable=False)
        (open_place / "b").chmod(0)
        error = error_of(settings)
        (open_place / "b").chmod(0o755)
    assert error.errno == errno.EACCES


def test_one_in_use_by_another_process_is_an_error_of_the_operator(settings: Settings) -> None:
    directories = Directories(settings, durable=False)
    try:
        with pytest.raises(StorageError, match="used twice"):
            Directories(settings, durable=False)
    finally:
        directories.close()


def test_nothing_is_formatted_beside_what_a_node_has_used(settings: Settings, tmp_path: Path) -> None:
    Directories(settings, durable=False).close()
    more = settings_of(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert format_storage(more, None, Random(2), 0, durable=False) == ()
    assert not (tmp_path / "c").exists()
    with pytest.raises(ConfigError, match=f"/a belongs to cluster {CLUSTER_ID}, not to {OTHER_CLUSTER_ID}"):
        format_storage(more, OTHER_CLUSTER_ID, Random(2), 0, durable=False)
    (formatted,) = format_storage(more, None, Random(2), 0, durable=False, beside_used=True)
    assert formatted.path == str(tmp_path / "c")


def test_a_first_start_that_was_cut_short_is_done_again(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "b" / FILE).unlink()
    (formatted,) = format_storage(settings, None, Random(2), 0, durable=False)
    assert formatted.path == str(tmp_path / "b")
