"""`penstock guardian model check`: whether a model is sound, and what it has."""

from __future__ import annotations

import argparse

import numpy as np

from penstock.cli.common import warn
from penstock.cli.output import counted, print_json
from penstock.guardian.model.reading import read_model


def check_model(arguments: argparse.Namespace) -> int:
    """Reads the model and says what it has; whatever is wrong with it is an error."""
    read = read_model(arguments.model)
    model = read.model
    sizes = {
        "brokers": len(model.brokers.ids),
        "racks": len(model.brokers.rack_names),
        "disks": len(model.disks.broker),
        "topics": len(model.topics),
        "partitions": len(model.topic),
        "replicas": model.replicas,
    }
    states = {
        "dead_brokers": int(np.count_nonzero(~model.brokers.alive)),
        "dead_disks": int(np.count_nonzero(~model.disks.alive)),
        "new_brokers": int(np.count_nonzero(model.brokers.new)),
    }
    if arguments.json:
        found = {**sizes, **states, "estimates": list(model.estimates), "unused_columns": list(read.unused)}
        print_json({**found, "digest": f"sha256:{model.digest()}"})
        return 0
    print(f"{arguments.model} is sound: " + ", ".join(counted(count, what[:-1]) for what, count in sizes.items()))
    for what, count in states.items():
        if count:
            kind, noun = what[:-1].split("_")
            print(counted(count, f"{kind} {noun}"))
    for each in model.estimates:
        print(each)
    if read.unused:
        warn(f"columns that mean nothing here: {', '.join(read.unused)}")
    return 0
