"""One file for each API family; a handler is a plain function from a request to an outcome (`penstock.node.request`).

A family's module ends with `HANDLERS`, a tuple of `Handler` rows; a module without it holds what several share. The
answer of ApiVersions and the dispatch come from these rows: an API that is not here does not exist for clients. The
rights that each API needs are in `penstock.security.rights`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from penstock.node.request import Handler
from penstock.protocol.api import ApiKey

if TYPE_CHECKING:
    from penstock.node.broker import Broker

FAMILIES = tuple(module.name for module in iter_modules(__path__))


@cache
def registry() -> Mapping[ApiKey, Handler[Broker]]:
    """The handlers of all APIs that this node serves, in the order of their keys."""
    rows: dict[ApiKey, Handler[Broker]] = {}
    for family in FAMILIES:
        for handler in getattr(import_module(f"{__name__}.{family}"), "HANDLERS", ()):
            assert handler.key not in rows, f"{handler.key.name} has two handlers"
            rows[handler.key] = handler
    return dict(sorted(rows.items()))
