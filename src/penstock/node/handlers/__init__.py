"""One file an API family; each handler is a plain function from a request to an outcome (`penstock.node.request`).

A family's module ends with `HANDLERS`, a tuple of `Handler` rows; one without has what several share. What ApiVersions
advertises comes from these rows, and so does the dispatch: an API that is not here does not exist to clients. What each
asks of who calls it is in `penstock.security.rights`.
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
    """Every API that this node serves, in the order of their keys."""
    rows: dict[ApiKey, Handler[Broker]] = {}
    for family in FAMILIES:
        for handler in getattr(import_module(f"{__name__}.{family}"), "HANDLERS", ()):
            assert handler.key not in rows, f"{handler.key.name} has two handlers"
            rows[handler.key] = handler
    return dict(sorted(rows.items()))
