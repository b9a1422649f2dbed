"""A real schema registry: Apicurio 2.6, which speaks Confluent's API, with its schemas in memory.

Its program comes by Maven into `.cache/apicurio-VERSION` at first use (140 MB). Without Java or Maven the tests that
need it are skipped with the reason; with CI=true in the environment they fail instead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from interop.kafka_peer import FETCH_TIMEOUT_S, SHORT_LIVED, run
from support.processes import free_ports, wait_until

VERSION = "2.6.13.Final"
HOME = Path(__file__).resolve().parents[2] / ".cache" / f"apicurio-{VERSION}"
JAR = HOME / f"apicurio-registry-app-{VERSION}-runner.jar"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
START_TIMEOUT_S = 90


def require_apicurio() -> None:
    """Skips the test when the registry cannot be run here; fails it when CI=true. Fetches it when it is not there."""
    for program in ("java",) if JAR.exists() else ("java", "mvn"):
        if shutil.which(program) is None:
            reason = f"a schema registry needs {program} on the PATH"
            if os.environ.get("CI") == "true":
                pytest.fail(f"CI=true and {reason}", pytrace=False)
            pytest.skip(reason)
    if not JAR.exists():
        fetch()


def fetch() -> None:
    """Copies the program into the cache; who comes second waits for who came first."""
    HOME.mkdir(parents=True, exist_ok=True)
    copy = "org.apache.maven.plugins:maven-dependency-plugin:copy"
    with (HOME.parent / f"{HOME.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if JAR.exists():
            return
        command = ["mvn", "-q", "-B", copy, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={HOME}"]
        run(command, timeout_s=FETCH_TIMEOUT_S, cwd=HOME)
        for archive in HOME.glob("*.tar.gz"):
            with tarfile.open(archive) as content:
                content.extractall(HOME, filter="data")
            archive.unlink()
    assert JAR.exists(), f"Maven ran, and there is no {JAR}"


class ApicurioPeer:
    """A running registry; a context manager. `url` is that of Confluent's API."""

    def __init__(self) -> None:
        require_apicurio()
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        self._command = [
            "java", "-Xmx300m", *SHORT_LIVED, "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}",
            "-Dquarkus.log.level=WARN", "-jar", str(JAR),
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdin=quiet, stdout=quiet, stderr=quiet)
        try:
            wait_until(self._answers, f"the registry answers: {' '.join(self._command)}", START_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise
        return self

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the registry has ended"
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """Ends it, and with it what it knows."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
