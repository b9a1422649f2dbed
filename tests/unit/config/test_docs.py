"""The reference pages say what the declarations say."""

from __future__ import annotations

import settings_docs

from penstock.config.server import SETTINGS


def test_the_pages_of_settings_are_current() -> None:
    for path, text in settings_docs.pages().items():
        assert path.read_text() == text, "run tools/settings_docs.py"


def test_every_setting_of_a_node_has_a_row() -> None:
    page = settings_docs.settings_page()
    assert [name for name, each in SETTINGS.items() if not each.internal and f"| `{name}` |" not in page] == []
