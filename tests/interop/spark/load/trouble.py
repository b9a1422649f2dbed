"""One run of a load whose store and catalog lose answers, and whose process is killed; and what must hold afterwards.

Everything comes from a seed: which requests meet which fault, at which request the load is killed, and what is done
between (the load is started again, the table is compacted). Jobs are small, so that a run has many commits, and none
needs Spark; `test_store_trouble` runs a few with it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from random import Random
from typing import TYPE_CHECKING

from interop.spark.load.both_tables import verify_both
from interop.spark.load.support import PARTITIONS, publish_values
from support.lossy_lake import LossyLake

from penstock.errors import PenstockError
from penstock.spark.lake.maintenance import Maintenance
from penstock.spark.lake.open import open_table
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.verify import verify
from penstock.spark.limits import LOAD_INLINE_OFFSETS
from penstock.spark.load.load import Load, LoadOptions
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OFFSETS_PER_JOB = 120
RATES = (0.03, 0.1, 0.25)
KILL_WITHIN = 120
"""Requests of a load within which it is killed."""
PATIENCE_S = 120.0


class Run:
    """A load of one topic under trouble.

    Args:
        lake: the store, with nothing else going on in it.
        bootstrap: of the broker that has the topic.
        topic: with so many `records` in it.
        seed: of all that happens.
        kill: whether the load is a process that is killed once.
        values: "raw", or "json": then the table has a quarantine beside it, and columns are added on the way.
        spark: the session that runs all jobs; None runs them in this process.
    """

    def __init__(
        self,
        lake: LossyLake,
        bootstrap: str,
        topic: str,
        *,
        records: int,
        table_format: str,
        seed: int,
        kill: bool,
        values: str = "raw",
        spark: SparkSession | None = None,
    ) -> None:
        self._lake = lake
        self._records = records
        self._chance = Random(seed)
        self._kill = kill
        self._spark = spark
        self.faults = 0
        self.errors: list[str] = []
        self._options = LoadOptions(
            bootstrap,
            [topic],
            f"s3://lake/trouble_{table_format}_{seed}",
            "test",
            format=values,
            table_format=table_format,
            storage_options=lake.options(table_format),
            offsets_per_job=OFFSETS_PER_JOB,
            group="",
            inline_offsets=LOAD_INLINE_OFFSETS if spark is None else 0,
        )

    def run(self) -> None:
        """Loads, with trouble, and then to the end without; asserts that nothing is missing or twice."""
        rate = self._chance.choice(RATES)
        self._lake.trouble(self._chance.getrandbits(32), rate)
        if self._kill:
            self._killed(rate)
        for _ in range(self._chance.randint(2, 4)):
            self._load_some()
            self._maintain()
        self.faults += self._lake.calm()
        with Load(self._spark, self._options) as load:
            load.run(threading.Event(), 0, lambda _: None, once=True)
            for table in (*load.tables.values(), *load.quarantines.values()):
                table.refresh()
            self._check(load)

    def _load_some(self) -> None:
        """A load in this process, for some jobs or until it fails, as it may, for a reason that it says."""
        jobs = self._chance.randint(1, 4)
        try:
            with Load(self._spark, self._options) as load:
                for _ in range(jobs):
                    load.run_job()
        except PenstockError as error:
            self.errors.append(str(error))

    def _maintain(self) -> None:
        try:
            Maintenance(self._opened(), target_bytes=1 << 20, keep_hours=168).run(("compact",))
        except PenstockError as error:
            self.errors.append(str(error))

    def _opened(self) -> LakeTable:
        options = self._options
        return open_table(
            options.table,
            "maintain",
            format=options.table_format,
            create=False,
            storage_options=dict(options.storage_options),
        )

    def _killed(self, rate: float) -> None:
        """A load in a process of its own, that dies at some request of the store."""
        options = self._options
        settings = [text for pair in options.storage_options.items() for text in ("--storage-option", "=".join(pair))]
        command = [sys.executable, "-m", "penstock", "load", options.topics[0], "--table", options.table, "--pipeline"]
        command += ["test", "--bootstrap", options.bootstrap, "--table-format", options.table_format, "--group", ""]
        command += ["--format", options.format]
        command += ["--offsets-per-job", str(OFFSETS_PER_JOB), "--interval-ms", "0", "--once", *settings]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            at = self._chance.randint(1, KILL_WITHIN)
            self._lake.trouble(self._chance.getrandbits(32), rate, kill=(process.pid, at))
            _, said = process.communicate(timeout=PATIENCE_S)
        if process.returncode > 0:  # it ended before, for a reason that it must say
            assert b"Traceback" not in said, said.decode()
            self.errors.append(said.decode())

    def _check(self, load: Load) -> None:
        verdicts = verify(load.lake)
        assert all(verdict.clean for verdict in verdicts), verdicts
        if not load.quarantines:
            assert sum(verdict.rows for verdict in verdicts) == self._records
            return
        both = verify_both(load.lake, load.quarantines[load.lake.uri])
        assert both.clean, both.wrong
        assert both.rows == self._records


def publish_json(broker: LocalBroker, topic: str, records: int) -> None:
    """Values with a new field now and then, some of them no JSON."""
    for partition in range(PARTITIONS):
        mine = range(partition, records, PARTITIONS)
        values = [b"broken" if n % 7 == 0 else b'{"n": %d, "f%d": "x"}' % (n, n // 150) for n in mine]
        publish_values(broker, topic, *values, partition=partition)
