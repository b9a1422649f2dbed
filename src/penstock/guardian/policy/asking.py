"""Asks a policy about moves, in a process that is ended when it takes too long. Whatever it does instead of a proper
answer is an error with the policy's name, after which nothing is planned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from math import ceil, isfinite
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from penstock.errors import ConfigError, PenstockError
from penstock.guardian.limits import (
    POLICY_BYTES_MAX,
    POLICY_MEMORY_BYTES_MAX,
    POLICY_OUTPUT_BYTES_MAX,
    POLICY_SECONDS_MAX,
)
from penstock.guardian.plan.policed import Answer, Columns

WORKER = Path(__file__).with_name("worker.py")
SHOWN = 60
CPU_SECONDS_MORE = 5
"""Processor time that a policy may take beyond its time: who has started it says first that the time is over."""
LAST_BYTES = 4_096
"""Of what a policy printed, so much is looked at for its last line."""
NUMBER_MAX = 1e100


@dataclass(frozen=True, slots=True)
class FilePolicy:
    """A policy that was read from a file: its name, for errors, and its text."""

    name: str
    text: str
    seconds_max: float = POLICY_SECONDS_MAX

    @property
    def digest(self) -> str:
        """A hash of its text: nodes that have the same one have the same policy."""
        return "sha256:" + sha256(self.text.encode()).hexdigest()

    def ask(self, columns: Columns) -> Answer:
        """Runs it on the columns of moves. Raises PenstockError."""
        count = len(columns["topic"])
        found = self._run(columns)
        if "error" in found:
            raise self._error(found["error"])
        if "allow" in found:
            self._check("allow", found["allow"], count, lambda each: type(each) is bool, "true or false")
        if "score" in found:
            right = "a finite number"
            self._check("score", found["score"], count, is_number, right)
        return Answer(found.get("allow", [True] * count), found.get("score"))

    def _run(self, columns: Columns) -> dict[str, Any]:
        """What the process answers."""
        question = {
            "name": self.name,
            "text": self.text,
            "columns": columns,
            "memory_bytes_max": POLICY_MEMORY_BYTES_MAX,
            "output_bytes_max": POLICY_OUTPUT_BYTES_MAX,
            "cpu_seconds_max": ceil(self.seconds_max) + CPU_SECONDS_MORE,
        }
        line = json.dumps(question).encode() + b"\n"
        with TemporaryFile() as answer, TemporaryFile() as printed:
            code = self._end_of(line, answer, printed)
            answer.seek(0)
            try:
                found: dict[str, Any] = json.load(answer)
            except ValueError:
                printed.seek(max(0, printed.seek(0, os.SEEK_END) - LAST_BYTES))
                last = printed.read().decode(errors="replace").strip().rpartition("\n")[2][:500]
                raise self._error(f"its process ended with {code} and no answer: {last}") from None
        return found

    def _end_of(self, line: bytes, answer: IO[bytes], printed: IO[bytes]) -> int:
        """Runs the process to its end, and ends what it has left running. What it says goes to files: however much that
        is, it takes no memory here.
        """
        command = [sys.executable, "-I", str(WORKER)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=answer, stderr=printed, start_new_session=True
        )
        try:
            process.communicate(line, timeout=self.seconds_max)
        except subprocess.TimeoutExpired:
            raise self._error(f"it took more than {self.seconds_max:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode

    def _check(self, function: str, values: Any, count: int, right: Any, words: str) -> None:
        """One value for each move, of the right kind. Raises PenstockError."""
        if type(values) is not list:
            raise self._error(f"{function} gave {shown(values)}; it must give a list or an array, a value a move")
        if len(values) != count:
            raise self._error(f"{function} gave {len(values)} values for {count} moves")
        for at, each in enumerate(values):
            if not right(each):
                raise self._error(f"{function} gave {shown(each)} for move {at + 1}; it must be {words}")

    def _error(self, text: str) -> PenstockError:
        return PenstockError(f"policy {self.name}: {text}; nothing is planned")


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= NUMBER_MAX and isfinite(value)


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def read_policy(path: Path) -> FilePolicy:
    """A policy's file. Raises ConfigError."""
    try:
        if path.stat().st_size > POLICY_BYTES_MAX:
            raise ConfigError(f"{path} has {path.stat().st_size:,} bytes; a policy has at most {POLICY_BYTES_MAX:,}")
        return FilePolicy(str(path), path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no text in UTF-8: {error}") from None
