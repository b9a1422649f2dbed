"""Builds the clients in other languages, once for each text of their sources, into `.cache/clients`.

Go modules, npm packages and crates are pinned in go.mod, package.json and Cargo.toml, and fetched by each language's
own tool. A test that needs a tool which is not there is skipped with the reason, and so fails when CI=true.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from interop.kafka_peer import ROOT, run

HERE = Path(__file__).parent
CACHE = ROOT / ".cache" / "clients"
BUILD_TIMEOUT_S = 900
GO, RUST = (1, 24), (1, 85)
"""What the pinned versions need; Debian 13 has both."""


def require(tool: str, package: str, at_least: tuple[int, int] = (0, 0), version: str = "--version") -> None:
    """Skips the test where a tool is missing or too old; `package` is Debian's."""
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool} on the PATH (apt-get install {package})")
    found = re.search(r"(\d+)\.(\d+)", run([tool, version]).stdout)
    there = (int(found[1]), int(found[2])) if found else (0, 0)
    if there < at_least:
        pytest.skip(f"{tool} is {there[0]}.{there[1]}, and the clients need {at_least[0]}.{at_least[1]}")


def built(language: str, build: Callable[[Path], None], where: Path = HERE) -> Path:
    """A directory with what `build` made of a copy of the language's sources in it, which are in `where`."""
    sources = sorted(path for path in (where / language).rglob("*") if path.is_file())
    text = b"".join(path.read_bytes() for path in sources)
    target = CACHE / f"{language}-{hashlib.sha256(text).hexdigest()[:20]}"
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            copy = Path(scratch, "copy")
            shutil.copytree(where / language, copy)
            build(copy)
            with suppress(OSError):  # somebody else was faster
                copy.rename(target)
    return target


def go_clients() -> list[str]:
    """The command of franz-go and sarama, to which the client's name and the broker's address are added."""
    require("go", "golang-go", GO, "version")
    directory = built("go", lambda copy: build(copy, "go", "build", "-o", "go-clients", "."))
    return [str(directory / "go-clients")]


def rust_client() -> list[str]:
    """The command of rskafka; the compiled crates are kept for the next text of the client."""
    require("cargo", "cargo", RUST)
    crates = CACHE / "crates"

    def compile_it(copy: Path) -> None:
        build(copy, "cargo", "build", "--quiet", "--target-dir", str(crates))
        shutil.copy2(crates / "debug" / "rust-client", copy)

    return [str(built("rust", compile_it) / "rust-client")]


def kafkajs_client() -> list[str]:
    """The command of kafkajs."""
    return ["node", str(npm_package("kafkajs") / "client.js")]


def npm_package(name: str, where: Path = HERE) -> Path:
    """The directory of a package.json, with what it names installed in it."""
    require("node", "nodejs", (18, 0))
    require("npm", "npm")
    quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")
    return built(name, lambda copy: build(copy, "npm", "install", *quiet), where)


def build(directory: Path, *command: str) -> None:
    """Runs a builder in a directory, niced: other tests may be running."""
    run(["nice", *command], timeout_s=BUILD_TIMEOUT_S, cwd=directory)
