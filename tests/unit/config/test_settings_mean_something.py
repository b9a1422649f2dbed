"""A declared setting is one that some code obeys; what means nothing is in the table of known ones, and is listed."""

from __future__ import annotations

import re
from pathlib import Path

import penstock
from penstock.config.group import BOUNDS, GROUP_SETTINGS
from penstock.config.server import SETTINGS

SOURCE = Path(penstock.__file__).parent
SYNONYMS = {"log.roll.hours", "log.roll.jitter.hours"}
"""Read under the name of the setting in milliseconds."""
OF_GROUPS = {name for setting in GROUP_SETTINGS.values() for name, _ in setting.broker} | {
    name for _, *bounds in BOUNDS for name in bounds
}
"""Read for a group, by names that are put together: defaults of its configs, and what these are held within."""


def test_every_declared_setting_is_read_somewhere() -> None:
    code = "\n".join(
        path.read_text()
        for path in SOURCE.rglob("*.py")
        if "broker" not in path.relative_to(SOURCE).parts and path.name != "known.py" and "messages" not in path.parts
    )
    words = set(re.findall(r"\w+", code))
    unread = [name for name in SETTINGS if name.replace(".", "_") not in words and f'"{name}"' not in code]
    assert set(unread) <= SYNONYMS | OF_GROUPS
