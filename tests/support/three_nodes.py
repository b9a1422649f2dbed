"""Three nodes of Penstock, each in a rack of its own. The fixture `three_nodes` has them running for a whole module."""

from __future__ import annotations

from pathlib import Path

from support.processes import Cluster

RACKS = {1: "a", 2: "b", 3: "c"}


def three_racks(directory: Path, **settings: object) -> Cluster:
    """The nodes, not started yet: use them as a context manager. `settings` as `Cluster` has them."""
    cluster = Cluster(directory, **settings)  # type: ignore[arg-type]
    for node_id, rack in RACKS.items():
        with cluster.file(node_id).open("a") as file:
            file.write(f"broker.rack={rack}\n")
    return cluster
