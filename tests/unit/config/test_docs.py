"""The reference pages say what the declarations say."""

from __future__ import annotations

import settings_docs


def test_the_pages_of_settings_are_current() -> None:
    for path, text in settings_docs.pages().items():
        assert path.read_text() == text, "run tools/settings_docs.py"
