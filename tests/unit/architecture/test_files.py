"""What is committed: files that fit in the head, no path of somebody's machine, no address of a package registry."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LINES_MAX = 600
GENERATED = ("src/penstock/protocol/messages/", "docs/reference/", "LICENSE")
DATA = ("src/penstock/protocol/schema.txt",)
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(work|root|home/(?!user\b|you\b|penstock\b)\w+|Users/\w+|opt/wheels)(/|\b)")
REGISTRY = re.compile(
    r"(files\.)?pythonhosted\.org|\bpypi\.org/simple|repo1?\.maven\.(apache\.)?org|--(extra-)?index-url|--find-links"
    r"|registry\.npmjs|proxy\.golang"
)


def committed() -> list[Path]:
    """The files that git knows, those not yet committed included; everything but caches where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        listed = [str(path.relative_to(ROOT)) for top in ("src", "tests", "docs") for path in (ROOT / top).rglob("*.*")]
    return [ROOT / name for name in listed if (ROOT / name).is_file() and "__pycache__" not in name]


def text_of(path: Path) -> str:
    """The text of a file; nothing for a binary one."""
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8", errors="replace")


def matches(pattern: re.Pattern[str]) -> list[str]:
    """Where a pattern stands in committed files, this one left out."""
    return [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:100]}"
        for path in committed()
        if path != Path(__file__)
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if pattern.search(line)
    ]


def test_there_are_files_to_check() -> None:
    assert ROOT / "pyproject.toml" in committed()
    assert Path(__file__).resolve() in committed()


def test_no_file_is_too_long_to_hold_in_the_head() -> None:
    long = {
        name: lines
        for path in committed()
        if not (name := str(path.relative_to(ROOT))).startswith(GENERATED) and name not in DATA
        if (lines := text_of(path).count("\n")) > LINES_MAX
    }
    assert long == {}, f"split along the meaning what has more than {LINES_MAX} lines"


def test_nothing_committed_names_a_path_of_one_machine() -> None:
    assert matches(MACHINE_PATH) == []


def test_nothing_committed_names_a_package_registry() -> None:
    assert matches(REGISTRY) == []


@pytest.mark.parametrize("line", ["cd /work/main", "'/root/.m2'", "/home/alice/x", "see /Users/bob/y"])
def test_a_machine_path_is_seen(line: str) -> None:
    assert MACHINE_PATH.search(line)


@pytest.mark.parametrize("line", ["a/work/b", "~/work/x", "/var/lib/penstock", "/worker", "a /rooted b", "/home/you/x"])
def test_other_paths_are_not(line: str) -> None:
    assert not MACHINE_PATH.search(line)


@pytest.mark.parametrize(
    "line", ["https://files.pythonhosted.org/x", "pip --index-url x", "https://repo1.maven.org/maven2"]
)
def test_a_registry_is_seen(line: str) -> None:
    assert REGISTRY.search(line)
