"""A broker whose log is cut behind its readers' backs, as an unclean election cuts it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from interop.spark.load.support import publish

from penstock.testing.broker import LocalBroker

TOPIC = "clicks"


class Cut:
    """A broker whose partition loses what came after its first 80 records: its leader is elected anew without them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.broker = LocalBroker(data_dir=directory / "data")
        self.broker.start()
        self.broker.create_topic(TOPIC, 1)
        self.publish(80)
        self.restart(lambda log: shutil.copytree(log, directory / "kept"))

    def publish(self, records: int) -> None:
        publish(self.broker, TOPIC, records, partitions=1)

    def cut(self) -> None:
        """The partition has its first 80 records only, and a new leader epoch."""

        def replace(log: Path) -> None:
            shutil.rmtree(log)
            shutil.copytree(self._directory / "kept", log)

        self.restart(replace)

    def restart(self, deed: Callable[[Path], object] = lambda log: None) -> None:
        """Stops the broker, does something to the partition's directory, and starts it at the same address."""
        self.broker.stop()
        deed(self._directory / "data" / f"{TOPIC}-0")
        same = {"listeners": f"PLAINTEXT://{self.broker.bootstrap},CONTROLLER://127.0.0.1:0"}
        self.broker = LocalBroker(same, data_dir=self._directory / "data")
        self.broker.start()
