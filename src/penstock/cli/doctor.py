"""Check that this machine has what a broker and its pipelines need, and say what to do if not.

With --bootstrap, also what transactions hold back in that cluster: readers with read_committed wait there.

Exit code 0: ready. 1: something must be done first.

examples:
  penstock doctor
  penstock doctor --config conf/server.properties
  penstock doctor --data /data/1 --data /data/2 --json
  penstock doctor --bootstrap 127.0.0.1:9092
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.cli.common import add_command_config, add_json, add_option, read_properties
from penstock.cli.finding import Finding, State
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.config.server import Settings

SUMMARY = "check this machine and say what to do"
DESCRIPTORS_WANTED = 100_000
DESCRIPTORS_NEEDED = 1024
FREE_NEEDED_BYTES = 1 << 30
FREE_SHARE_WANTED = 0.1
MEMORY_WANTED_BYTES = 512 << 20
SANE_YEAR = 2024
SLOW_FSYNC_MS = 50
FSYNCS = 5
PROBE_FILE = ".penstock-doctor"
NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p"})


def register(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--config", "FILE", "check for the node with this server.properties")
    add_option(
        parser,
        "--data",
        "DIR",
        "log directory, present or planned; repeatable (default: the current directory)",
        action="append",
    )
    add_option(parser, "--bootstrap", "HOST:PORT", "also check what transactions hold back in this cluster")
    add_command_config(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the findings; 1 if something must be done."""
    from penstock.cli.output import GREEN, RED, YELLOW, paint, print_json

    findings = list(examine(arguments))
    if arguments.json:
        print_json(
            [
                {"subject": each.subject, "state": each.state.value, "found": each.found, "remedy": each.remedy or None}
                for each in findings
            ]
        )
    else:
        colours = {State.FINE: GREEN, State.ODD: YELLOW, State.WRONG: RED}
        width = max(len(each.subject) for each in findings)
        for each in findings:
            print(f"{paint(each.state.value.ljust(4), colours[each.state])}  {each.subject.ljust(width)}  {each.found}")
            if each.remedy:
                print(" " * (width + 8) + each.remedy)
        wrong = sum(each.state is State.WRONG for each in findings)
        print("\nnothing stands in the way" if not wrong else f"\n{wrong} to fix first")
    return 1 if any(each.state is State.WRONG for each in findings) else 0


def examine(arguments: argparse.Namespace) -> Iterator[Finding]:
    """Runs all checks."""
    settings = None
    if arguments.config:
        settings, finding = check_config(arguments.config)
        yield finding
        if settings is not None:
            from penstock.cli.doctor_certificates import check_certificates

            yield from check_certificates(settings)
    yield check_python()
    yield check_descriptors()
    yield check_memory()
    yield check_clock()
    directories = arguments.data or (settings.directories if settings is not None else (os.getcwd(),))
    for path in directories:
        yield from check_directory(path)
    yield check_event_loop()
    yield check_cleaner()
    yield from check_java()
    if arguments.bootstrap is not None:
        from penstock.cli.doctor_transactions import check_transactions

        yield from check_transactions(arguments)


def check_config(path: str) -> tuple[Settings | None, Finding]:
    from penstock.config.server import Settings

    try:
        settings = Settings.from_properties(read_properties(path))
    except PenstockError as error:
        return None, Finding(State.WRONG, "settings", str(error).replace("\n", " "), f"penstock config check {path}")
    if settings.warnings:
        return settings, Finding(State.ODD, "settings", "; ".join(settings.warnings))
    return settings, Finding(State.FINE, "settings", path)


def check_python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    found = f"{version}, {sys.platform}, {os.cpu_count()} cores"
    if built_with_pgo():
        return Finding(State.FINE, "python", found)
    remedy = "use a distribution's, or build with --enable-optimizations --with-lto"
    return Finding(State.ODD, "python", f"{found}, built without PGO: a broker takes a third more CPU", remedy)


def built_with_pgo() -> bool:
    """Whether this Python was compiled with profile-guided optimisation.

    Debian and Ubuntu do that by rules of their own: their Python has no such option, but the flag is cleared, which any
    other build has, used or not.
    """
    import sysconfig

    asked = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    return asked or sysconfig.get_config_var("PGO_PROF_USE_FLAG") == ""


def check_descriptors() -> Finding:
    """How many files and sockets a process may have open; a broker raises its soft limit to the hard one by itself."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    found = f"{soft}, may be raised to {'any number' if limit == sys.maxsize else hard}"
    remedy = "ulimit -Hn 1048576, or LimitNOFILE=1048576 in the systemd unit"
    if limit < DESCRIPTORS_NEEDED:
        return Finding(State.WRONG, "descriptors", f"{found}: too few", remedy)
    if limit < DESCRIPTORS_WANTED:
        return Finding(State.ODD, "descriptors", f"{found}: few for many partitions or clients", remedy)
    return Finding(State.FINE, "descriptors", found)


def check_memory() -> Finding:
    import psutil

    from penstock.cli.output import size_text

    memory = psutil.virtual_memory()
    found = f"{size_text(memory.available)} of {size_text(memory.total)} available"
    if memory.available < MEMORY_WANTED_BYTES:
        remedy = f"leave at least {size_text(MEMORY_WANTED_BYTES)}: what is free serves as the page cache"
        return Finding(State.ODD, "memory", found, remedy)
    return Finding(State.FINE, "memory", found)


def check_clock() -> Finding:
    """Whether the clock is plausible, and on Linux whether timesyncd or chrony seems to set it."""
    now = time.gmtime()
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", now)
    if now.tm_year < SANE_YEAR:
        return Finding(State.WRONG, "clock", f"{text}: in the past", "set it; retention and timestamps go by it")
    synchronised = os.path.exists("/run/systemd/timesync/synchronized") or os.path.exists("/run/chrony")
    if sys.platform == "linux" and not synchronised:
        return Finding(State.FINE, "clock", f"{text} (no timesyncd or chrony seen here)")
    return Finding(State.FINE, "clock", text)


def check_directory(path: str) -> Iterator[Finding]:
    """Free space, rights, the time of an fsync and RWF_NOWAIT where a log directory is or will be."""
    from penstock.cli.output import size_text

    subject = f"disk {path}"
    place = existing_parent(os.path.abspath(path))
    status = os.statvfs(place)
    free, total = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    found = f"{size_text(free)} of {size_text(total)} free"
    if free < FREE_NEEDED_BYTES:
        yield Finding(State.WRONG, subject, found, f"make room: at least {size_text(FREE_NEEDED_BYTES)}")
    elif free < FREE_SHARE_WANTED * total:
        yield Finding(State.ODD, subject, found, "nearly full: lower retention, or add a log directory")
    else:
        yield Finding(State.FINE, subject, found)
    if not os.access(place, os.W_OK | os.X_OK):
        yield Finding(State.WRONG, subject, f"{place} is not writable", f"chown it, or run as the owner of {place}")
        return
    yield from probe_disk(subject, place)


def existing_parent(path: str) -> str:
    """The path, or the nearest directory above it that exists."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def probe_disk(subject: str, place: str) -> Iterator[Finding]:
    """Writes, syncs and removes a small file."""
    from penstock.server.disk import supports_nowait

    kind = file_system_of(place)
    if kind in NETWORK_FILE_SYSTEMS:
        yield Finding(
            State.ODD, subject, f"{kind}: a network file system", "use a local disk: locks and fsync are weak"
        )
    milliseconds = fsync_ms(place)
    found = f"{kind}, fsync takes {milliseconds:.1f} ms"
    if milliseconds > SLOW_FSYNC_MS:
        yield Finding(State.ODD, subject, found, "slow: changes of topics wait for it; appends do not")
    else:
        yield Finding(State.FINE, subject, found)
    if supports_nowait(place):
        yield Finding(State.FINE, subject, "RWF_NOWAIT: reads of old data never hold up others")
    else:
        yield Finding(
            State.ODD, subject, "no RWF_NOWAIT: a broker guesses what is in memory", "ext4 and xfs on Linux have it"
        )


def fsync_ms(place: str) -> float:
    """Median time of an fsync of a few bytes, in milliseconds."""
    path = f"{place}/{PROBE_FILE}-{os.getpid()}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        times = []
        for _ in range(FSYNCS):
            os.write(descriptor, b"probe")
            began = time.perf_counter()
            os.fsync(descriptor)
            times.append(time.perf_counter() - began)
        return sorted(times)[FSYNCS // 2] * 1000
    finally:
        os.close(descriptor)
        os.unlink(path)


def file_system_of(place: str) -> str:
    """The type of the file system that a directory is on, as the mount table calls it."""
    import psutil

    real = os.path.realpath(place)
    best = ("", "unknown file system")
    for mount in psutil.disk_partitions(all=True):
        at = mount.mountpoint
        if (real == at or real.startswith(at.rstrip("/") + "/")) and len(at) >= len(best[0]):
            best = (at, mount.fstype or "unknown file system")
    return best[1]


def check_event_loop() -> Finding:
    from importlib.util import find_spec

    if find_spec("uvloop") is None:
        return Finding(State.ODD, "event loop", "asyncio's own", "pip install 'penstock[uvloop]' makes brokers faster")
    return Finding(State.FINE, "event loop", "uvloop")


def check_cleaner() -> Finding:
    """Whether the loops of the log cleaner and of recoveries can be compiled; without numba they are plain Python."""
    from importlib.util import find_spec

    if find_spec("numba") is None:
        remedy = "pip install 'penstock[kernels]' makes compaction about 40 times as fast, and recovery 20 times"
        return Finding(State.ODD, "log cleaner", "in plain Python", remedy)
    return Finding(State.FINE, "log cleaner", "compiled by numba")


def check_java() -> Iterator[Finding]:
    """Only pipelines need Java, so its lack is not wrong."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        yield Finding(State.ODD, "spark", "not installed", "for pipelines: pip install 'penstock[spark]'")
        return
    from penstock.spark.java import JavaMissingError, find_java

    try:
        java = find_java()
    except JavaMissingError as error:
        yield Finding(State.ODD, "java", "none for pipelines", str(error))
        return
    yield Finding(State.FINE, "java", f"{java.version} at {java.home} ({java.source})")
