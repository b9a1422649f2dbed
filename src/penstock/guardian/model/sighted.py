"""A model of a registered cluster, from what Guardian's leader sees of it (the pages of `/v1/model`).

Brokers, racks, disks and their sizes, replicas and theirs, and what is written to each partition are measured. Kafka
tells no more, so the rest is estimated, and the model says from what:

| Column | Of a leader | Of a follower |
|---|---|---|
| `net_in`, `disk_write` | what is written to the partition | the same |
| `net_out` | the same for each follower, and once for consumers | 0 |
| `disk_read` | 0: what was just written is read from memory | 0 |
| `cpu` | one core for CPU_RATE of `net_in` and `net_out` | likewise |

Capacities of disks are those that brokers tell; others come from `Capacities`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.guardian.model.tables import ESTIMATES
from penstock.guardian.plan.model import Array

CPU_RATE = 100_000_000.0
"""Bytes a second that one core sends and receives, as an estimate."""
NOT_KNOWN = "not known"
"""The directory of a replica of which no broker has told where it lies."""


@dataclass(frozen=True, slots=True)
class Capacities:
    """What a broker and a disk can do, where its cluster does not tell. None: what is assumed.

    Attributes: `cpu_cores` of a broker; `network_rate` of a broker in each direction and `disk_rate` of a disk, in
    bytes a second; `disk_bytes`, the size of a disk.
    """

    cpu_cores: float | None = None
    network_rate: float | None = None
    disk_rate: float | None = None
    disk_bytes: float | None = None

    def or_of_labels(self, labels: Mapping[str, str]) -> Capacities:
        """With what labels of the cluster say, where nothing else was said. Raises ConfigError."""
        return Capacities(
            *(
                own if own is not None else of_label(labels, name)
                for own, name in zip(
                    (self.cpu_cores, self.network_rate, self.disk_rate, self.disk_bytes), LABELS, strict=True
                )
            )
        )


LABELS = ("cpu.cores", "network.bytes.per.second", "disk.bytes.per.second", "disk.bytes")
"""Labels of a cluster that say capacities."""
ASSUMED = Capacities(8.0, 1_250_000_000.0, 200_000_000.0)


def of_label(labels: Mapping[str, str], name: str) -> float | None:
    if name not in labels:
        return None
    try:
        value = float(labels[name])
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ConfigError(f"label {name}={labels[name]} must be a number above 0")
    return value


class Sighted:
    """Takes the pages of a cluster, in order, and makes the tables of its model."""

    def __init__(self, pages: Iterable[Mapping[str, Any]]) -> None:
        self.topics: list[str] = []
        self.rows: list[tuple[int, list[Any]]] = []
        self.paths: list[list[str | None]] = []
        self.moving = 0
        self.last: Mapping[str, Any] = {}
        for page in pages:
            self.last = page
            self.moving += page["moving"]
            names = page["paths"]
            for topic, rows in page["topics"].items():
                if not self.topics or self.topics[-1] != topic:
                    self.topics.append(topic)
                for row in rows:
                    self.rows.append((len(self.topics) - 1, row))
                    self.paths.append([None if at is None else names[at] for at in row[3]])

    def tables(self, given: Capacities) -> dict[str, pa.Table]:
        """The three tables. Raises ConfigError for a cluster of which too little is known."""
        cluster = self.last["cluster"]
        if not self.rows:
            raise ConfigError(f"cluster {cluster} has no partitions: there is nothing to plan")
        said = given.or_of_labels(self.last["labels"])
        estimates: list[str] = []
        disks = Disks(self, said, estimates)
        brokers = self._brokers(disks, said, estimates)
        replicas = self._replicas(disks, estimates)
        note = {ESTIMATES: json.dumps(estimates).encode()}
        return {"brokers": brokers, "disks": disks.table(), "replicas": replicas.replace_schema_metadata(note)}

    def _brokers(self, disks: Disks, said: Capacities, estimates: list[str]) -> pa.Table:
        alive = {each[0]: each for each in self.last["brokers"]}
        ids = sorted({*alive, *disks.brokers()})
        cores = assumed(said.cpu_cores, ASSUMED.cpu_cores, "each broker has {} cores", "--cpu-cores", estimates)
        rate = assumed(
            said.network_rate, ASSUMED.network_rate, "each broker receives and sends {} bytes/s", "--network-rate",
            estimates,
        )  # fmt: skip
        return pa.table({
            "broker": pa.array(ids, pa.int32()),
            "rack": [(alive[each][2] if each in alive else None) or "" for each in ids],
            "idc": [self.last["idc"]] * len(ids),
            "host": [alive[each][1] if each in alive else "" for each in ids],
            "alive": [each in alive for each in ids],
            "new": [each in alive and not disks.holds(each) for each in ids],
            "cpu_capacity": [cores] * len(ids),
            "net_in_capacity": [rate] * len(ids),
            "net_out_capacity": [rate] * len(ids),
        })  # fmt: skip

    def _replicas(self, disks: Disks, estimates: list[str]) -> pa.Table:
        counts = np.array([len(row[2]) for _, row in self.rows])
        partition = np.repeat(np.arange(len(self.rows)), counts)
        position = np.arange(len(partition)) - np.repeat(np.cumsum(counts) - counts, counts)
        broker = np.array([each for _, row in self.rows for each in row[2]], np.int64)
        leader = np.repeat([row[1] for _, row in self.rows], counts)
        leads = broker == leader
        leaderless = np.bincount(partition, leads, len(self.rows)) == 0
        leads |= (position == 0) & leaderless[partition]
        if leaderless.any():
            count = int(np.count_nonzero(leaderless))
            estimates.append(f"{count} partitions have no leader: their preferred one is taken to lead")
        if self.moving:
            estimates.append(f"{self.moving} partitions are being moved: they are taken as they are now")
        size = self._sizes(counts, partition, leads, estimates)
        columns: dict[str, Any] = {
            "topic": [self.topics[at] for at, row in self.rows for _ in row[2]],
            "partition": pa.array(np.repeat([row[0] for _, row in self.rows], counts), pa.int32()),
            "position": pa.array(position, pa.int16()),
            "leader": leads,
            "broker": pa.array(broker, pa.int32()),
            "dir": disks.dirs,
        }
        median, peak = self._written(estimates)
        for suffix, written in (("", median[partition]), ("_p95", peak[partition])):
            as_leader, as_follower = loads(written, (counts - 1)[partition], size)
            for name in as_leader:
                columns[f"leader_{name}{suffix}"] = as_leader[name]
                columns[f"follower_{name}{suffix}"] = as_follower[name]
                columns[f"{name}{suffix}"] = np.where(leads, as_leader[name], as_follower[name])
        return pa.table(columns)

    def _sizes(self, counts: Array, partition: Array, leads: Array, estimates: list[str]) -> Array:
        """Bytes of each replica; of one of which they are not known, those of its partition's largest."""
        size = np.array([np.nan if each is None else each for _, row in self.rows for each in row[4]], np.float64)
        unknown = np.isnan(size)
        if unknown.any():
            largest = np.zeros(len(counts))
            np.maximum.at(largest, partition, np.where(unknown, 0, size))
            size = np.where(unknown, largest[partition], size)
            count = int(np.count_nonzero(unknown))
            estimates.append(
                f"{count} replicas have told no size: that of the largest one of their partition is taken, or 0"
            )
        return size

    def _written(self, estimates: list[str]) -> tuple[Array, Array]:
        """What is written to each partition, bytes/s: median and 95th percentile of windows."""
        figures = np.array([[np.nan if each is None else each for each in row[5:7]] for _, row in self.rows])
        windows = [row[7] for _, row in self.rows if row[7]]
        unknown = np.isnan(figures[:, 0])
        if unknown.any():
            count = int(np.count_nonzero(unknown))
            estimates.append(f"{count} of {len(figures)} partitions have not been watched for long enough: their "
                             "load is taken to be 0")  # fmt: skip
        if windows:
            estimates.append(
                "net_in and disk_write are differences of the sizes of leaders, or of their end offsets, over "
                f"{min(windows)} to {max(windows)} windows of 5 minutes; what compaction takes away is missing in them"
            )
        estimates.append(
            "net_out is what is written, for each follower and once for consumers; disk_read is 0, as if all was read "
            f"from memory; cpu is a core for {CPU_RATE / 1e6:g} MB/s in and out: Kafka tells none of them"
        )
        known = np.where(np.isnan(figures), 0, figures)
        return known[:, 0], known[:, 1]


class Disks:
    """The disks of the model, and where each replica lies. Attributes: `dirs`, the directory of each replica."""

    def __init__(self, sighted: Sighted, said: Capacities, estimates: list[str]) -> None:
        alive = {each[0] for each in sighted.last["brokers"]}
        self._rows = {(broker, path): [capacity, not error and broker in alive]
                      for broker, path, capacity, error in sighted.last["disks"]}  # fmt: skip
        first: dict[int, str] = {}
        for broker, path in sorted(self._rows):
            first.setdefault(broker, path)
        self.dirs: list[str] = []
        self._holding: set[int] = set()
        unknown = 0
        for (_, row), paths in zip(sighted.rows, sighted.paths, strict=True):
            for broker, path in zip(row[2], paths, strict=True):
                unknown += path is None
                found = path or first.setdefault(broker, NOT_KNOWN)
                self._rows.setdefault((broker, found), [-1, broker in alive])
                self.dirs.append(found)
                self._holding.add(broker)
        for broker in sorted(alive - first.keys()):
            self._rows[broker, NOT_KNOWN] = [-1, True]
        if unknown:
            estimates.append(f"{unknown} replicas lie where no broker has told: in its first directory, it is assumed")
        self._rate = assumed(said.disk_rate, ASSUMED.disk_rate, "each disk does {} bytes/s", "--disk-rate", estimates)
        self._take_sizes(sighted, said, estimates)

    def _take_sizes(self, sighted: Sighted, said: Capacities, estimates: list[str]) -> None:
        silent = [place for place, (capacity, _) in self._rows.items() if capacity <= 0]
        if said.disk_bytes is not None:
            for row in self._rows.values():
                row[0] = said.disk_bytes
        elif silent:
            largest = max((capacity for capacity, _ in self._rows.values()), default=-1)
            broker, path = silent[0]
            if largest <= 0:
                raise ConfigError(
                    f"broker {broker} of cluster {sighted.last['cluster']} does not tell how large {path} is: say it "
                    "with --disk-bytes, or with the label disk.bytes of the cluster"
                )
            for place in silent:
                self._rows[place][0] = largest
            estimates.append(f"{len(silent)} directories have told no size, the first is {path} of broker {broker}: "
                             f"they are taken to be as large as the largest, {largest} bytes")  # fmt: skip

    def brokers(self) -> set[int]:
        """The brokers that have disks."""
        return {broker for broker, _ in self._rows}

    def holds(self, broker: int) -> bool:
        """Whether a broker has any replica."""
        return broker in self._holding

    def table(self) -> pa.Table:
        """The table of disks."""
        return pa.table({
            "broker": pa.array([broker for broker, _ in self._rows], pa.int32()),
            "dir": [path for _, path in self._rows],
            "bytes_capacity": [float(capacity) for capacity, _ in self._rows.values()],
            "rate_capacity": [self._rate] * len(self._rows),
            "alive": [alive for _, alive in self._rows.values()],
        })  # fmt: skip


def loads(written: Array, followers: Array, size: Array) -> tuple[dict[str, Array], dict[str, Array]]:
    """What a replica costs as a leader and as a follower, see the module's head."""
    nothing = np.zeros(len(written))
    out = written * (followers + 1)
    as_leader = {"cpu": (written + out) / CPU_RATE, "bytes": size, "disk_write": written, "disk_read": nothing,
                 "net_in": written, "net_out": out}  # fmt: skip
    as_follower = {**as_leader, "cpu": written / CPU_RATE, "net_out": nothing}
    return as_leader, as_follower


def assumed(said: float | None, otherwise: float | None, what: str, option: str, estimates: list[str]) -> float:
    """What was said, or what is assumed instead, with a sentence on that; `what` has `{}` for the number."""
    if said is not None:
        return said
    assert otherwise is not None
    estimates.append(f"{what.format(f'{otherwise:g}')}, it is assumed; {option} says what it has")
    return otherwise
