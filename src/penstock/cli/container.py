"""A node in a container: its settings from the environment, its directories formatted when they are new.

Variables are named as for Apache Kafka's image: KAFKA_ and the setting in capitals, with `_` for `.`, `__` for `_` and
`___` for `-`. They override the image's own file, which is one node that is broker and controller; if
KAFKA_PROCESS_ROLES is set, only the variables count, except for the directory and the metrics. CLUSTER_ID is the
cluster's id, which the nodes of one cluster must share.

Directories are formatted at the first start. Later, one that is not formatted is taken for a volume that is missing,
and is offline, unless FORMAT_NEW_DIRECTORIES is true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.config.properties import Properties
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.config.server import Settings

PREFIX = "KAFKA_"
CLUSTER_ID = "CLUSTER_ID"
FORMAT_NEW_DIRECTORIES = "FORMAT_NEW_DIRECTORIES"
ROLES = "process.roles"
KEPT = ("log.dirs", "penstock.metrics.listener")
"""Of the image's file, what holds also for a node that the environment declares."""
NOT_SETTINGS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "CLASSPATH", "DEBUG", "GC_LOG_OPTS", "HEAP_OPTS", "HOME", "JMX_HOSTNAME", "JMX_OPTS", "JMX_PORT",
        "JVM_PERFORMANCE_OPTS", "LOG4J_LOGGERS", "LOG4J_OPTS", "LOG4J_ROOT_LOGLEVEL", "OPTS", "TOOLS_LOG4J_LOGLEVEL",
        "VERSION",
    )
)  # fmt: skip
"""Variables of Kafka's scripts, of Java above all; passed over as its image does."""
UNDERLINES = re.compile("_{1,3}")
MEANINGS = {"_": ".", "__": "_", "___": "-"}


def setting_name(variable: str) -> str:
    """`KAFKA_LOG_DIRS` as `log.dirs`."""
    name = variable.removeprefix(PREFIX).lower()
    return UNDERLINES.sub(lambda found: MEANINGS[found[0]], name)


def properties_of(environment: Mapping[str, str], defaults: Properties) -> Properties:
    """The node's settings: those of the environment over those of the image's file."""
    given = {
        setting_name(variable): value
        for variable, value in sorted(environment.items())
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS
    }
    below = {name: text for name, text in defaults.items() if ROLES not in given or name in KEPT}
    lines = {name: line for name in below if name not in given and (line := defaults.line_of(name)) is not None}
    return Properties({**below, **given}, lines, defaults.source, beside="the environment")


def prepare(settings: Settings, environment: Mapping[str, str]) -> None:
    """Formats the directories at the first start, as the first voter of a dynamic quorum if the node is that.

    Raises ConfigError when other nodes belong to the cluster and nobody said which one it is.
    """
    import time

    from penstock.cli.common import new_random
    from penstock.server.directories import cluster_id_of, format_storage

    cluster_id = environment.get(CLUSTER_ID) or cluster_id_of(settings)
    if cluster_id is None and not is_alone(settings):
        raise ConfigError(
            f"{CLUSTER_ID} is not set: all nodes of a cluster need the same\n  penstock storage random-uuid makes one"
        )
    standalone = settings.is_controller and not settings.voters
    beside_used = environment.get(FORMAT_NEW_DIRECTORIES, "").lower() == "true"
    now_ms = time.time_ns() // 1_000_000
    format_storage(settings, cluster_id, new_random(), now_ms, standalone=standalone, beside_used=beside_used)


def is_alone(settings: Settings) -> bool:
    """Whether the node is its whole cluster's quorum, so that it may give the cluster an id."""
    if not settings.is_controller:
        return False
    if settings.voters:
        return [voter.id for voter in settings.voters] == [settings.node_id]
    return len(settings.controller_quorum_bootstrap_servers) <= 1
