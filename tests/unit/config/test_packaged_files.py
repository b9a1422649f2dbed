"""The configuration files that we ship are accepted in strict mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import properties
from penstock.config.server import Settings

PACKAGING = Path(__file__).resolve().parents[3] / "packaging"


@pytest.mark.parametrize("file", sorted(PACKAGING.glob("*.properties")), ids=lambda file: file.name)
def test_a_shipped_configuration_has_nothing_to_warn_of(file: Path) -> None:
    read = Settings.from_properties(properties.parse(file.read_bytes(), file.name), strict=True)
    assert (read.warnings, read.ignored) == ((), ())
    assert read.is_broker
    assert read.is_controller
