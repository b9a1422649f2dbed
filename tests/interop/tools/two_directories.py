"""A cluster of three nodes with two log directories each, for tests that move replicas between directories."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.processes import CLUSTER_ID, PENSTOCK, Cluster


def formatted(path: Path) -> Cluster:
    """The cluster, formatted and not started."""
    cluster = Cluster(path)
    for node_id in cluster.roles:
        with cluster.file(node_id).open("a") as file:
            file.write(f"log.dirs={directory(cluster, node_id, 0)},{directory(cluster, node_id, 1)}\n")
        command = [*PENSTOCK, "storage", "format", "-g", "-t", CLUSTER_ID, "-c", str(cluster.file(node_id))]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return cluster


def directory(cluster: Cluster, node_id: int, number: int) -> Path:
    """One of a node's log directories, 0 or 1."""
    return cluster.path(node_id) / ("data", "more")[number]
