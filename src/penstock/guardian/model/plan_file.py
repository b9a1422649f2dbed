"""A plan that somebody has in a file: JSON, not too large. What it says is for `plan.verifier` to check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError
from penstock.guardian.limits import PLAN_FILE_BYTES_MAX


def read_plan(path: Path) -> Any:
    """What the file says. Raises ConfigError if it cannot be read, is too large or is no JSON."""
    try:
        size_bytes = path.stat().st_size
        if size_bytes > PLAN_FILE_BYTES_MAX:
            raise ConfigError(f"{path} has {size_bytes:,} bytes; a plan has at most {PLAN_FILE_BYTES_MAX:,}")
        return json.loads(path.read_bytes(), parse_constant=no_number)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {error}") from None


def no_number(name: str) -> Any:
    """JSON has no such numbers, though Python's reader takes them. Raises ValueError."""
    raise ValueError(f"{name} is no number there")
