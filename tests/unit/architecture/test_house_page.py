"""The pages that lead through the house name files and functions that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXPLANATION = ROOT / "docs" / "explanation"
PAGES = [*sorted(EXPLANATION.glob("add-*.md")), EXPLANATION / "the-house.md"]
FILE = re.compile(r"`((?:[a-z_]+/)+[a-z_]*\.?[a-z]*)`")
"""A path of a file or a folder."""
PLACES = (ROOT / "src" / "penstock", ROOT)


def named_files(page: Path) -> list[str]:
    return FILE.findall(page.read_text())


def names_in(line: str) -> list[tuple[str, str]]:
    """Functions in a row of a walk, each as (class or nothing, name), which stand in the row's first file."""
    _, _, happens = line.strip("| \n").partition("|")
    return re.findall(r"`(?:([A-Z]\w+)\.)?([a-z]\w+)`", happens)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_are_named_are_there(page: Path) -> None:
    files = named_files(page)
    assert files
    assert [file for file in files if not any((place / file).exists() for place in PLACES)] == []


def test_functions_of_the_walks_are_in_their_files() -> None:
    walks = (EXPLANATION / "the-house.md").read_text()
    missing = []
    for line in walks.splitlines():
        files = FILE.findall(line) if line.startswith("| `") else []
        source = "".join((PLACES[0] / file).read_text() for file in files)
        for owner, name in names_in(line) if files else ():
            if owner and not re.search(rf"class {owner}\b.*?def {name}\b", source, re.DOTALL):
                missing.append(f"{owner}.{name}")
            elif not owner and not re.search(rf"def {name}\b", source):
                missing.append(name)
    assert missing == []


def test_a_planted_name_is_missed() -> None:
    assert FILE.findall("in `node/gone.py`, not `acks=1`") == ["node/gone.py"]
    assert names_in("| `node/gate.py` | `Gate.opens`, then `shuts` |") == [("Gate", "opens"), ("", "shuts")]
