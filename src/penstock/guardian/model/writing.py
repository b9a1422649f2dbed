"""Writes a `Model` as the directory of Parquet files that `model.reading` reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.guardian.plan.model import PEAK, RESOURCES, Model


def write_model(model: Model, directory: Path) -> None:
    """Writes the three files, over those that are there."""
    write_tables(tables_of(model), directory)


def write_tables(tables: Mapping[str, pa.Table], directory: Path) -> None:
    """Writes tables as files of a model, over those that are there."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        pq.write_table(table, directory / f"{name}.parquet")


def tables_of(model: Model) -> dict[str, pa.Table]:
    """The tables of a model, by the names of their files."""
    brokers, disks = model.brokers, model.disks
    return {
        "brokers": pa.table(
            {
                "broker": pa.array(brokers.ids, pa.int32()),
                "rack": [brokers.rack_names[each] for each in brokers.rack],
                "host": [f"host-{each}" for each in brokers.host],
                "alive": brokers.alive,
                "new": brokers.new,
                "cpu_capacity": brokers.cpu_capacity,
                "net_in_capacity": brokers.net_in_capacity,
                "net_out_capacity": brokers.net_out_capacity,
            }
        ),
        "disks": pa.table(
            {
                "broker": pa.array(brokers.ids[disks.broker], pa.int32()),
                "dir": list(disks.dirs),
                "bytes_capacity": disks.bytes_capacity,
                "rate_capacity": disks.rate_capacity,
                "alive": disks.alive,
            }
        ),
        "replicas": pa.table(replica_columns(model)),
    }


def replica_columns(model: Model) -> dict[str, Any]:
    """The columns of `replicas`: names as dictionaries, loads in the present role and in both."""
    dirs = sorted(set(model.disks.dirs))
    dir_at = {name: index for index, name in enumerate(dirs)}
    dir_codes = np.array([dir_at[name] for name in model.disks.dirs])[model.disk]
    topic = model.topic[model.partition]
    found: dict[str, Any] = {
        "topic": pa.DictionaryArray.from_arrays(pa.array(topic, pa.int32()), pa.array(model.topics)),
        "partition": pa.array(model.number[model.partition], pa.int32()),
        "position": pa.array(np.arange(model.replicas) - model.first[model.partition], pa.int16()),
        "leader": model.leads(),
        "broker": pa.array(model.brokers.ids[model.broker], pa.int32()),
        "dir": pa.DictionaryArray.from_arrays(pa.array(dir_codes, pa.int32()), pa.array(dirs)),
    }
    for prefix, load in (("", model.load()), ("leader_", model.leading), ("follower_", model.following)):
        for suffix, offset in (("", 0), ("_p95", PEAK)):
            for k, name in enumerate(RESOURCES):
                found[f"{prefix}{name}{suffix}"] = load[:, offset + k]
    return found
