"""The Guardian beside `penstock dev --guardian`: one node, a process of its own, which the cluster is registered with.

It is started before the brokers, told of them once they serve, and stopped after them. It watches its standard input,
so that it never outlives this process. Its directory is beside that of the data, and kept like that.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock.cli.common import new_random
from penstock.cli.dev_data import MARK, entries, held, mark
from penstock.cli.dev_place import HOST, choose_port, free_ports
from penstock.errors import ConfigError, StorageError

CLUSTER = "dev"
"""The name that the cluster is registered under."""
DEFAULT_GUARDIAN_PORT = 9500
ANSWER_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
DIRECTORY_SUFFIX = "-guardian"
FILE = "guardian.properties"
NODE_ID = 1


class DevGuardian:
    """The process. Attributes: `address`, where it listens; `directory`, where it keeps what it knows."""

    def __init__(self, directory: str, port: int, log_level: str) -> None:
        """Starts it, and returns when it listens. Raises StorageError if it does not, having said why on stderr."""
        self.directory = directory
        self.address = f"{HOST}:{port}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.dev_guardian_node", os.path.join(directory, FILE), log_level],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for this process, which stops all in order
        )
        try:
            self._answer()
        except BaseException:
            self.stop()
            raise

    def register(self, bootstrap: list[str]) -> None:
        """Has the cluster registered. Raises StorageError if that fails."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"name": CLUSTER, "bootstrap": bootstrap}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise StorageError("Guardian has ended; see above") from None
        answer = self._answer()
        if "error" in answer:
            raise StorageError(f"Guardian does not register the cluster: {answer['error']}")

    def _answer(self) -> dict[str, Any]:
        """The next line that it says."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], ANSWER_TIMEOUT_S)[0]:
            raise StorageError(f"Guardian has not answered within {ANSWER_TIMEOUT_S:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise StorageError("Guardian did not come up; see above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> int:
        """Stops it cleanly; one that takes too long is killed. Returns its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._process.stdout.close()

    def told(self) -> list[str]:
        """The lines of the greeting that say how it is used."""
        from penstock.cli.output import home_relative

        where = "" if self.address == f"{HOST}:{DEFAULT_GUARDIAN_PORT}" else f" --guardian {self.address}"
        return [
            f"  guardian    {self.address}   (it knows this cluster as {CLUSTER})",
            f"              penstock guardian clusters list{where}",
            f"              {home_relative(self.directory)}",
        ]


@contextmanager
def guardian_beside(data: str, port: int | None, *, fresh: bool, log_level: str) -> Iterator[DevGuardian]:
    """Runs a Guardian beside the cluster in `data`; it is stopped in the end.

    Raises ConfigError for a directory that is not for it, StorageError when it does not come up.
    """
    directory = data.rstrip("/") + DIRECTORY_SUFFIX
    guardian = DevGuardian(directory, prepare(directory, port, fresh=fresh), log_level)
    try:
        yield guardian
    finally:
        code = guardian.stop()
        if code:
            print(f"Guardian has failed (exit code {code})", file=sys.stderr, flush=True)


def prepare(directory: str, asked_port: int | None, *, fresh: bool) -> int:
    """Makes the directory ready for use, emptied if `fresh`. Returns the port.

    Raises ConfigError for a directory that is not ours, StorageError for one in use.
    """
    from penstock.config.guardian import GuardianSettings
    from penstock.guardian.service import format_node

    data = os.path.join(directory, "data")
    found = entries(directory)
    if found and MARK not in found:
        raise ConfigError(f"{directory} was not made by penstock dev: it is left alone\n  choose another --data")
    mark(directory)
    if os.path.isdir(data):
        with held([data]):
            if fresh:
                empty_guardian(data)
    port = choose_port(asked_port, DEFAULT_GUARDIAN_PORT, "--guardian-port", "guardian", {}) or free_ports(1)[0]
    properties = {
        "penstock.guardian.node.id": str(NODE_ID),
        "penstock.guardian.listener": f"{HOST}:{port}",
        "penstock.guardian.voters": f"{NODE_ID}@{HOST}:{port}",
        "penstock.guardian.data.dir": data,
    }
    with open(os.path.join(directory, FILE), "w") as file:
        file.writelines(f"{name}={value}\n" for name, value in properties.items())
    if not entries(data):
        format_node(GuardianSettings.from_properties(properties), None, new_random())
    return port


def empty_guardian(data: str) -> None:
    """Removes what a node of Guardian has written. Raises ConfigError when there is anything else."""
    from penstock.guardian.core.identity import FILE as IDENTITY
    from penstock.raft.topic import GUARDIAN

    foreign = entries(data) - {IDENTITY, GUARDIAN.directory}
    if foreign:
        raise ConfigError(
            f"{data} has what Guardian does not write: --fresh removes nothing there\n"
            f"  move {', '.join(sorted(foreign)[:3])} away first, or choose another --data"
        )
    shutil.rmtree(os.path.join(data, GUARDIAN.directory), ignore_errors=True)
    if IDENTITY in entries(data):
        os.unlink(os.path.join(data, IDENTITY))
