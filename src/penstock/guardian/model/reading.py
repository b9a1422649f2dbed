"""A directory of Parquet files as a `Model`, checked: what one row says must go with what the others say.

Loads: the columns without a prefix are what a replica causes in its present role. `leader_*` and `follower_*` say what
it would cause in either. Where they are missing, a follower is taken to cost as a leader what its partition's leader
costs now, and a leader as a follower what the partition's followers cost on average; bytes on disk stay each replica's
own. Where a 95th percentile is missing, the median stands in for it. The model says what was estimated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.guardian.limits import MODEL_BROKERS_MAX, MODEL_REPLICAS_MAX
from penstock.guardian.model.columns import FILES
from penstock.guardian.model.tables import Problems, Table, read_tables
from penstock.guardian.plan.model import BYTES, LOAD_COLUMNS, PEAK, RESOURCES, Array, Brokers, Disks, Model


@dataclass(frozen=True, slots=True)
class Read:
    """A model that was read, and columns of its files that mean nothing here, as `file.column`."""

    model: Model
    unused: tuple[str, ...]


def read_model(directory: Path) -> Read:
    """Reads and checks a model. Raises ConfigError or ConfigErrors, with file, row and what would be right."""
    return model_of(read_tables(directory))


def model_of(data: Mapping[str, Any]) -> Read:
    """The model of Arrow tables like those of the files, by their names. Raises as `read_model` does."""
    problems = Problems()
    tables = {name: Table(name, data[name], problems) for name in FILES}
    check_sizes(tables)
    problems.check()
    brokers = brokers_of(tables["brokers"], problems)
    problems.check()
    disks, disk_at = disks_of(tables["disks"], brokers, problems)
    problems.check()
    model = replicas_of(tables["replicas"], brokers, disks, disk_at, problems)
    unused = tuple(f"{name}.{column}" for name, table in tables.items() for column in table.unused)
    return Read(model, unused)


def check_sizes(tables: Mapping[str, Table]) -> None:
    for name, most in (("brokers", MODEL_BROKERS_MAX), ("replicas", MODEL_REPLICAS_MAX)):
        rows = tables[name].rows
        if not 0 < rows <= most:
            raise ConfigError(f"{name}.parquet has {rows:,} rows; there must be 1 to {most:,}")


def brokers_of(table: Table, problems: Problems) -> Brokers:
    """The brokers, by id."""
    ids = table["broker"].astype(np.int64)
    order = np.argsort(ids, kind="stable")
    problems.at_rows(
        "brokers", repeated(ids, order), f"broker {example(ids, repeated(ids, order))} is there twice",
        "each broker must have one row",
    )  # fmt: skip
    problems.at_rows("brokers", ids < 0, f"broker {example(ids, ids < 0)} is negative", "ids are 0 or more")
    racks, rack_names = coded(table["rack"])
    hosts, _ = coded(table["host"])
    nameless = pc.equal(table["host"], "").to_numpy()
    hosts = np.where(nameless, len(ids) + np.arange(len(ids)), hosts)
    return Brokers(
        ids[order], racks[order], np.unique(hosts, return_inverse=True)[1][order], table["alive"][order],
        table["new"][order], table["cpu_capacity"][order], table["net_in_capacity"][order],
        table["net_out_capacity"][order], rack_names,
    )  # fmt: skip


def coded(names: Any) -> tuple[Array, tuple[str, ...]]:
    """Names as numbers, in the order of the names."""
    known = sorted(pc.unique(names).to_pylist())
    codes = pc.index_in(names, value_set=pc.unique(names).take(pc.array_sort_indices(pc.unique(names))))
    return codes.to_numpy().astype(np.int64), tuple(known)


def repeated(keys: Array, order: Array) -> Array:
    """Whether each row has a key that a row before it has."""
    found = np.zeros(len(keys), np.bool_)
    found[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return found


def example(values: Any, wrong: Array) -> Any:
    """The first value that is wrong."""
    rows = np.flatnonzero(wrong)
    return values[int(rows[0])] if len(rows) else None


def brokers_at(brokers: Brokers, table: Table, problems: Problems) -> Array:
    """The index of the broker of each row; an unknown one is a problem."""
    ids = table["broker"].astype(np.int64)
    at = np.minimum(np.searchsorted(brokers.ids, ids), len(brokers.ids) - 1)
    unknown = brokers.ids[at] != ids
    text = f"broker {example(ids, unknown)} is not in brokers.parquet"
    problems.at_rows(table.name, unknown, text, "each broker must have a row there")
    found: Array = at
    return found


def disks_of(table: Table, brokers: Brokers, problems: Problems) -> tuple[Disks, dict[tuple[int, str], int]]:
    """The disks by broker and dir, and where each is."""
    at = brokers_at(brokers, table, problems)
    dirs = table["dir"].to_pylist()
    order = np.array(sorted(range(len(dirs)), key=lambda row: (at[row], dirs[row])), np.int64)
    seen: dict[tuple[int, str], int] = {}
    twice = np.zeros(len(dirs), np.bool_)
    for row in range(len(dirs)):
        twice[row] = (int(at[row]), dirs[row]) in seen
        seen[int(at[row]), dirs[row]] = row
    name = f"{example(dirs, twice)} of broker {example(table['broker'], twice)}"
    problems.at_rows("disks", twice, f"{name} is there twice", "each directory of a broker must have one row")
    empty = np.array([not each for each in dirs], np.bool_)
    problems.at_rows("disks", empty, "dir is empty", "it must be the path of a log directory")
    counts = np.bincount(at, minlength=len(brokers.ids))
    for broker in brokers.ids[counts == 0].tolist():
        problems.add(f"disks.parquet has no row for broker {broker}; each broker must have a log directory")
    disks = Disks(
        at[order], np.concatenate([[0], np.cumsum(counts)]), tuple(dirs[row] for row in order),
        table["bytes_capacity"][order], table["rate_capacity"][order], table["alive"][order],
    )  # fmt: skip
    return disks, {(int(at[row]), dirs[row]): index for index, row in enumerate(order.tolist())}


def replicas_of(
    table: Table, brokers: Brokers, disks: Disks, disk_at: Mapping[tuple[int, str], int], problems: Problems
) -> Model:
    """The model, its replicas in order. Raises ConfigErrors."""
    broker = brokers_at(brokers, table, problems)
    disk = disks_at(table, broker, disk_at, problems)
    topic, topics = coded(table["topic"])
    number, position = table["partition"].astype(np.int64), table["position"].astype(np.int64)
    for what, values in (("partition", number), ("position", position)):
        problems.at_rows("replicas", values < 0, f"{what} is {example(values, values < 0)}", "it must be 0 or more")
    problems.check()
    order = np.lexsort((position, number, topic))
    topic, number, position = topic[order], number[order], position[order]
    broker, disk, leads = broker[order], disk[order], table["leader"][order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (topic[1:] != topic[:-1]) | (number[1:] != number[:-1])
    first = np.append(np.flatnonzero(begins), len(order))
    partition = np.cumsum(begins) - 1

    def name(row: int) -> str:
        return f"{topics[topic[row]]}-{number[row]}"

    check_partitions(Checked(order, first, partition, position, leads, brokers.ids[broker], name), problems)
    leader = np.flatnonzero(leads)
    leading, following, estimates = loads_of(table, order, partition, leads, leader)
    starts = first[:-1]
    return Model(
        brokers, disks, topics, topic[starts], number[starts], first, partition, broker, disk, leader, leading,
        following, (*table.estimates, *estimates),
    )  # fmt: skip


def disks_at(table: Table, broker: Array, disk_at: Mapping[tuple[int, str], int], problems: Problems) -> Array:
    """The index of the disk of each row; an unknown one is a problem."""
    codes, names = coded(table["dir"])
    pairs, inverse = np.unique(broker * len(names) + codes, return_inverse=True)
    at = np.array([disk_at.get((int(pair // len(names)), names[pair % len(names)]), -1) for pair in pairs], np.int64)
    found = at[inverse]
    unknown = found < 0
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        text = f"broker {table['broker'][row]} has no dir {names[codes[row]]!r}"
        known = ", ".join(each for (b, each) in disk_at if b == broker[row])
        problems.at_rows("replicas", unknown, text, f"disks.parquet has {known} for it")
    return found


@dataclass(frozen=True, slots=True)
class Checked:
    """Replicas in order, to be checked partition by partition; `order` has the rows where they stood."""

    order: Array
    first: Array
    partition: Array
    position: Array
    leads: Array
    ids: Array
    name: Any


def check_partitions(each: Checked, problems: Problems) -> None:
    """Each partition has positions from 0, one leader, and its replicas on different brokers. Raises ConfigErrors."""
    rows = np.zeros(len(each.order), np.bool_)
    wrong = each.position != np.arange(len(each.order)) - each.first[each.partition]
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        rows[each.order[wrong]] = True
        size = int(each.first[each.partition[at] + 1] - each.first[each.partition[at]])
        text = f"{each.name(at)} has {size} replicas, one at position {each.position[at]}"
        mark(problems, each.order, np.array([at]), text, f"their positions must be 0 to {size - 1}, each once")
    leaders = np.bincount(each.partition, each.leads, len(each.first) - 1).astype(np.int64)
    for p in np.flatnonzero(leaders != 1)[:3]:
        text = f"{each.name(each.first[p])} has {leaders[p]} leaders"
        mark(problems, each.order, each.first[p : p + 1], text, "exactly one replica must have leader = true")
    key = each.partition * (int(each.ids.max()) + 1) + each.ids
    double = repeated(key, np.argsort(key, kind="stable"))
    for at in np.flatnonzero(double)[:3]:
        text = f"{each.name(at)} has two replicas on broker {each.ids[at]}"
        mark(problems, each.order, np.array([at]), text, "a broker can have one")
    problems.check()


def mark(problems: Problems, order: Array, at: Array, text: str, right: str) -> None:
    """A problem of one row, by its place in the order."""
    rows = np.zeros(len(order), np.bool_)
    rows[order[at]] = True
    problems.at_rows("replicas", rows, text, right)


def loads_of(
    table: Table, order: Array, partition: Array, leads: Array, leader: Array
) -> tuple[Array, Array, tuple[str, ...]]:
    """The loads as a leader and as a follower, and sentences on what was estimated; see the module's head."""
    leading, following = np.empty((len(order), LOAD_COLUMNS)), np.empty((len(order), LOAD_COLUMNS))
    lacking: dict[str, list[str]] = {"_p95": [], "leader_": [], "follower_": []}
    count = len(leader)
    followers = np.maximum(np.bincount(partition, ~leads, count), 1)
    for suffix, offset in (("", 0), ("_p95", PEAK)):
        for k, name in enumerate(RESOURCES):
            column = f"{name}{suffix}"
            present = table[column][order]
            if suffix and (nulls := table.missing(column)[order]).any():
                present = np.where(nulls, table[name][order], present)
                lacking["_p95"].append(column)
            if k == BYTES:  # what lies on the disk is there in either role
                leading[:, offset + k] = following[:, offset + k] = present
                continue
            average = np.bincount(partition, np.where(leads, 0, present), count) / followers
            as_leader, guessed = filled(table, f"leader_{column}", order, present[leader][partition])
            if (guessed & ~leads).any():
                lacking["leader_"].append(f"leader_{column}")
            as_follower, guessed = filled(table, f"follower_{column}", order, average[partition])
            if (guessed & leads).any():
                lacking["follower_"].append(f"follower_{column}")
            leading[:, offset + k] = np.where(leads, present, as_leader)
            following[:, offset + k] = np.where(leads, as_follower, present)
    return leading, following, sentences(lacking)


def filled(table: Table, column: str, order: Array, estimate: Array) -> tuple[Array, Array]:
    """What a column says, the estimate where it says nothing; and where that is."""
    nulls = table.missing(column)[order]
    return np.where(nulls, estimate, table[column][order]), nulls


def sentences(lacking: Mapping[str, list[str]]) -> tuple[str, ...]:
    """What was estimated, and from what."""
    stand_ins = {
        "_p95": "medians stand in for 95th percentiles",
        "leader_": "a follower is taken to cost as a leader what its partition's leader costs now",
        "follower_": "a leader is taken to cost as a follower what its partition's followers cost on average",
    }
    return tuple(
        f"replicas.parquet lacks {', '.join(columns)}: {stand_ins[kind]}"
        for kind, columns in lacking.items()
        if columns
    )
