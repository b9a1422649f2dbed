"""The tutorial's commands, as they stand on its page, one after the other in an empty directory."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("duckdb", reason="needs penstock[sql]")

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
TIMEOUT_S = 120
USUAL_ADDRESS = "127.0.0.1:9092"


def steps() -> Iterator[tuple[str, str]]:
    """What a reader does, in order: ("run", command) or (name of a file, its text)."""
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if block["kind"] == "console":
            for line in block["text"].splitlines():
                assert line.startswith("$ "), f"a console block has only commands: {line}"
                yield "run", line[2:]
        elif block["title"]:
            yield block["title"], block["text"]


class Reader:
    """Somebody who follows the page in a directory, with a broker on a port of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {**os.environ, "HOME": str(directory)}
        self.said: dict[str, str] = {}
        self.broker: subprocess.Popen[str] | None = None

    def run(self, command: str) -> None:
        words = shlex.split(command)
        if words[0] != "penstock":
            return  # making the directory and installing: the test's environment has been made already
        if words[1] == "dev":
            self.start_broker(words[1:])
            return
        words = [word.replace(USUAL_ADDRESS, self.environment["PENSTOCK_BOOTSTRAP"]) for word in words]
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        self.said[command] = done.stdout

    def start_broker(self, words: list[str]) -> None:
        self.broker = subprocess.Popen(
            [sys.executable, "-m", "penstock", *words, "--port", "0", "--metrics-port", "0", "--json"],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.broker.stdout is not None
        self.environment["PENSTOCK_BOOTSTRAP"] = json.loads(self.broker.stdout.readline())["bootstrap"]

    def close(self) -> None:
        if self.broker is not None:
            self.broker.terminate()
            self.broker.communicate(timeout=TIMEOUT_S)


@pytest.mark.slow
@pytest.mark.spark
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    try:
        for what, text in steps():
            if what == "run":
                reader.run(text)
            else:
                (tmp_path / what).write_text(text, encoding="utf-8")
    finally:
        reader.close()
    assert len(reader.said["penstock consume clicks --max 2"].splitlines()) == 2
    assert len(reader.said["penstock consume clicks --group readers --max 100"].splitlines()) == 100
    groups = reader.said["penstock groups describe readers load-clicks"]
    assert re.search(r"^readers: consumer group, Empty, .* lag [1-9]", groups, re.MULTILINE)
    assert re.search(r"^load-clicks: classic group, Empty, 0 members, lag 0$", groups, re.MULTILINE)
    assert "/p/1 " in next(text for command, text in reader.said.items() if command.startswith("penstock sql"))
    proofs = [text for command, text in reader.said.items() if command.startswith("penstock verify")]
    assert len(proofs) == 2
    assert all(re.search(r"^clean: [\d,]+ rows in 4 partitions", proof, re.MULTILINE) for proof in proofs)
    assert "A web site" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")


def test_the_tutorial_installs_extras_that_exist() -> None:
    import tomllib

    project = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"pip install '\.\./penstock\[(.+)\]'", PAGE.read_text(encoding="utf-8"))
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
