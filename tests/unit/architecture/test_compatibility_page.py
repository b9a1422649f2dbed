"""The page that says what of Kafka works says what the handler registry says."""

from __future__ import annotations

import re
from pathlib import Path

import compatibility

from penstock.cli.dev_place import MISSING
from penstock.node.handlers import registry

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_current() -> None:
    assert compatibility.PAGE.read_text() == compatibility.page(), "run tools/compatibility.py"


def test_every_served_api_has_its_row() -> None:
    rows = {int(key) for key in re.findall(r"^\| (\d+) \| .* \| \d[\d-]* \|$", compatibility.page(), re.MULTILINE)}
    assert rows >= {int(key) for key in registry()}


def test_penstock_dev_names_as_missing_only_what_is() -> None:
    missing = " ".join(feature.lower() for feature, says in compatibility.FEATURES if says.startswith("not yet"))
    for word in re.findall(r"\w+", MISSING.lower()):
        assert word in missing, f"{word}: {MISSING}"


def test_the_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", without_code(page.read_text())):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)} -> {target}")
    assert broken == []


def without_code(text: str) -> str:
    """A page without what it has as code, in lines of its own or not."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
