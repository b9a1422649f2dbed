"""The tutorial of three tenants: its commands, as they stand on the page, and what it says that they show."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import wait_until

pytest.importorskip("numpy", reason="needs penstock[kernels]")

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "three-tenants.md"
BLOCK = re.compile(r'^```console(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
TIMEOUT_S = 60.0
TO_NOBODY = " > /dev/null"
QUIET = "penstock generate clicks --topic events --client-id quiet --rate 500 --seconds 5"
LIST = "penstock quotas list"
TOOK = re.compile(r"requests took (\d+\.\d) ms \(99 %: (\d+\.\d) ms\)")


def steps() -> Iterator[tuple[str | None, str]]:
    """The terminal, None for the usual one, and the command, in order."""
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        for line in block["text"].splitlines():
            assert line.startswith("$ penstock "), line
            yield block["title"], line[2:]


class Reader:
    """Somebody who follows the page, with a broker on a port of its own."""

    def __init__(self, home: Path) -> None:
        self.environment = {**os.environ, "HOME": str(home), "PENSTOCK_BOOTSTRAP": ""}
        self.terminals: dict[str, subprocess.Popen[str]] = {}
        self.said: list[tuple[str, str]] = []

    def run(self, terminal: str | None, command: str) -> None:
        words = [sys.executable, "-m", *shlex.split(command.removesuffix(TO_NOBODY))]
        if terminal is not None:
            self.begin(terminal, words)
            return
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        self.said.append((command, done.stdout + done.stderr))
        if "--client-id-default" in command:
            assert set(self.terminals) == {"a broker"}, "nobody is greedy yet"

    def begin(self, terminal: str, words: list[str]) -> None:
        """Runs a command that stays in its terminal."""
        assert terminal not in self.terminals
        if words[3] == "dev":
            words += ["--port", "0", "--metrics-port", "0", "--json"]
        out = subprocess.PIPE if words[3] == "dev" else subprocess.DEVNULL
        process = subprocess.Popen(words, env=self.environment, stdout=out, stderr=subprocess.DEVNULL, text=True)
        self.terminals[terminal] = process
        if process.stdout is not None:
            self.environment["PENSTOCK_BOOTSTRAP"] = json.loads(process.stdout.readline())["bootstrap"]

    def until(self, *words: str, contains: str) -> None:
        """Repeats a command until it says something."""

        def does() -> bool:
            self.run(None, f"penstock quotas {' '.join(words)}")
            return re.search(contains, self.said.pop()[1]) is not None

        wait_until(does, f"{words} says {contains}", TIMEOUT_S)

    def close(self) -> dict[str, int]:
        """Ends all, the broker last; their exit codes."""
        try:
            for process in reversed(self.terminals.values()):
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=TIMEOUT_S)
        finally:
            for process in self.terminals.values():
                process.kill()  # if it has not ended, which the test says
                process.communicate()
        return {name: process.returncode for name, process in self.terminals.items()}


@pytest.mark.slow
def test_the_tutorial_shows_what_it_says(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    try:
        for terminal, command in steps():
            reader.run(terminal, command)
            if terminal == "greedy":
                for name in ("greedy", "reader"):
                    reader.until("list", contains=rf"\b{name} +(producer|consumer)_byte_rate +[1-9]")
        alive = {name: process.poll() for name, process in reader.terminals.items()}
    finally:
        codes = reader.close()
    assert alive == dict.fromkeys(["a broker", "reader", "greedy"]), "nobody got an error"
    assert codes["greedy"] == 0
    quiet = [TOOK.search(text) for command, text in reader.said if command == QUIET]
    assert len(quiet) == 3
    assert all(quiet), "each says how long its requests took"
    before, after, throttled, last = (text for command, text in reader.said if command.startswith(LIST))
    for tenant in ("greedy", "reader", "quiet"):
        assert re.search(rf"^ +1 +{tenant} .* default client id \(level 8\)$", before, re.MULTILINE), before
    used = {tenant: int(rate) for tenant, rate in re.findall(r"^ +1 +(\w+) +producer_byte_rate +(\d+)", before, re.M)}
    assert used["greedy"] > 100 * used["quiet"] > 0
    assert re.search(r"^ +1 +quiet .* - +default client id \(level 8\)$", after, re.MULTILINE), after
    held = r"^ +1 +greedy +producer_byte_rate +\d+ +2000000 .* for .+, .+ more +client id greedy \(level 7\)$"
    for text in (after, throttled):
        assert re.search(held, text, re.MULTILINE), text
    assert "quiet" not in throttled
    assert "client id greedy (level 7)" not in last
    explained = next(text for command, text in reader.said if " explain " in command)
    assert "producer_byte_rate: 2000000, level 7, shared by all with client id greedy" in explained
    assert re.search(r"8 +default client id +1000000000 +does not count: level 7 is more specific", explained)


def test_the_page_is_for_what_there_is() -> None:
    terminals = [title for title, _ in steps() if title is not None]
    assert terminals == ["a broker", "reader", "greedy"]
    assert sum(command == QUIET for _, command in steps()) == 3, "alone, beside greedy, beside greedy under a quota"
