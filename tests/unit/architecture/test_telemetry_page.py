"""The page about telemetry says what the code says."""

from __future__ import annotations

import telemetry_docs


def test_the_page_is_current() -> None:
    assert telemetry_docs.PAGE.read_text() == telemetry_docs.page(), "run tools/telemetry_docs.py"
