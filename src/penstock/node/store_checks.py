"""Whether key and trust stores can be used: asked before a broker's config names other ones, as Kafka's brokers do.

Only the broker itself has the files, so the broker that is asked looks, before it forwards the request. Reading takes
long, so the lane of the metadata log's directory does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.config.prefixed import PREFIX
from penstock.config.server import Settings
from penstock.errors import ConfigError, NotResident
from penstock.log.directory import LogDirectory

CheckStores = Callable[[Settings], None]
"""Raises ConfigError if a node could not go over to the keys and trust of these settings. Blocks."""
OF_TLS = "ssl."


def any_stores(settings: Settings) -> None:
    """For a node without TLS: there is nothing to look at."""


class StoresUnread(NotResident):
    """Has a lane look at the stores of the settings under these dynamic configs.

    Attributes: `problem`, why they cannot be used; None if they can.
    """

    def __init__(
        self,
        directory: LogDirectory,
        check: CheckStores,
        settings: Settings,
        layers: tuple[Mapping[str, str], Mapping[str, str]],
    ) -> None:
        super().__init__(directory.index, "key and trust stores", 0, 0)
        self.problem: str | None = None
        self._check = check
        self._settings = settings
        self._layers = layers

    def read(self, disk: Any) -> Any:
        try:
            settings = self._settings.with_dynamic(*self._layers)
        except ConfigError:
            return None  # they contradict each other, as the controller will say
        try:
            self._check(settings)
        except (ConfigError, OSError) as wrong:
            return str(wrong)
        return None

    def was_read(self, result: Any) -> None:
        self.problem = result


def names_stores(name: str) -> bool:
    """Whether a config is one of TLS, of all listeners or of one."""
    return name.startswith(OF_TLS) or (name.startswith(PREFIX) and f".{OF_TLS}" in name)
