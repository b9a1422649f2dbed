"""What brokers say of their log directories on /metrics alone: reserve, write rate, full, slow, uncleanable logs.

Brokers do not advertise where their /metrics is, so the user says it: one address with {id} and {host} for all of
them, or ID=URL for one.
"""

from __future__ import annotations

import http.client
import os
import re
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.config.values import MiB
from penstock.errors import UnreachableError, UsageError

if TYPE_CHECKING:
    from ssl import SSLContext

    from penstock.client.cluster import BrokerState

TOKEN_VARIABLE = "PENSTOCK_METRICS_TOKEN"

TIMEOUT_S = 5
PAGE_BYTES_MAX = 64 * MiB
"""A larger page is refused; one of a broker with 10,000 partitions has a few."""
ONE_BROKER = re.compile(r"(\d+)=(.+)")
PARTITION = re.compile(r"[0-9]{1,10}", re.ASCII)
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
PREFIX = "penstock_log_directory_"
UNCLEANABLE = "kafka_log_logcleanermanager_uncleanable_"
UNCLEANABLE_LOG = "penstock_log_cleaner_uncleanable_bytes"
LANE_HEALTHY = "penstock_lane_healthy"
SAMPLE = re.compile(
    rf"^(?P<name>{PREFIX}(?:reserve_bytes|write_rate_bytes|full)|{UNCLEANABLE}(?:partitions_count|bytes)"
    rf"|{UNCLEANABLE_LOG}|{LANE_HEALTHY})"
    r'\{(?P<labels>(?:[^}"\n]|"(?:[^"\\\n]|\\.)*")*)\} (?P<value>\S+)$',
    re.MULTILINE,
)
LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class UncleanableLog:
    """A log that the cleaner could not clean, or not all of."""

    topic: str
    partition: int
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class DirectoryMetrics:
    """What /metrics says of one directory; None: nothing.

    Attributes: `uncleanable_logs`, the first of the `uncleanable` ones; `slow`, whether appends wait for the disk.
    """

    reserve_bytes: int | None = None
    write_rate_bytes: int | None = None
    full: bool | None = None
    uncleanable: int | None = None
    uncleanable_bytes: int | None = None
    uncleanable_logs: tuple[UncleanableLog, ...] = ()
    slow: bool | None = None


def addresses(options: Sequence[str], brokers: Sequence[BrokerState]) -> dict[int, str]:
    """The address of each broker's /metrics, as --metrics names them. Raises UsageError."""
    found: dict[int, str] = {}
    for option in options:
        one = ONE_BROKER.fullmatch(option)
        url = option if one is None else one[2]
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--metrics {option}: it must be http://HOST:PORT/metrics, or ID=http://...")
        if one is not None:
            if int(one[1]) not in {broker.id for broker in brokers}:
                raise UsageError(f"--metrics {option}: there is no broker {one[1]}")
            found[int(one[1])] = url
        elif "{id}" not in url and "{host}" not in url and len(brokers) > 1:
            raise UsageError(
                f"--metrics {option}: of which broker? there are {len(brokers)}"
                "\n  write {host} or {id} where the addresses differ, or --metrics ID=URL for each"
            )
        else:
            for broker in brokers:
                filled = url.replace("{id}", str(broker.id)).replace("{host}", broker.host)
                found.setdefault(broker.id, filled)
    return found


def read_metrics(url: str, context: SSLContext | None = None) -> dict[str, DirectoryMetrics]:
    """What a broker says of its directories, by path. Raises UnreachableError.

    `context`: for https, whom to trust and what to show; None: the machine's own trust. The variable TOKEN_VARIABLE
    has the token, which goes to no address that a broker sends us on to.
    """
    request = urllib.request.Request(url)
    if token := os.environ.get(TOKEN_VARIABLE):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
    opener = urllib.request.build_opener(*handlers)
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            page = answer.read(PAGE_BYTES_MAX + 1)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise UnreachableError(f"no metrics from {url}: {reason}") from None
    if len(page) > PAGE_BYTES_MAX:
        raise UnreachableError(f"no metrics from {url}: the page is larger than {PAGE_BYTES_MAX} bytes")
    found = parse(page.decode(errors="replace"))
    if not found:
        raise UnreachableError(f"no metrics from {url}: the page says nothing of log directories")
    return found


def parse(page: str) -> dict[str, DirectoryMetrics]:
    """The samples of log directories on a Prometheus page, by path."""
    values: dict[str, dict[str, int]] = {}
    logs: dict[str, list[UncleanableLog]] = {}
    lanes: dict[str, int] = {}
    paths: dict[str, str] = {}
    for sample in SAMPLE.finditer(page):
        try:
            value = int(float(sample["value"]))
        except (ValueError, OverflowError):  # NaN and infinity are numbers of Prometheus
            continue
        labels = {name: unescaped(text) for name, text in LABEL.findall(sample["labels"])}
        path = labels.get("path", labels.get("logDirectory"))
        if path is None:
            lanes[labels.get("directory", "")] = value
            continue
        of_directory = values.setdefault(path, {})
        if "directory" in labels:
            paths[labels["directory"]] = path
        if sample["name"] == UNCLEANABLE_LOG:
            if (log := uncleanable_log(labels, value)) is not None:
                logs.setdefault(path, []).append(log)
        else:
            of_directory[sample["name"]] = value
    for directory, healthy in lanes.items():
        if directory in paths:  # that of the metadata log alone has no replicas
            values[paths[directory]][LANE_HEALTHY] = healthy
    return {path: metrics_of(named, logs.get(path, ())) for path, named in values.items()}


def unescaped(text: str) -> str:
    """The value of a label, which is written in quotes."""
    return re.sub(r"\\.", lambda escape: ESCAPES.get(escape[0], escape[0]), text)


def uncleanable_log(labels: Mapping[str, str], size_bytes: int) -> UncleanableLog | None:
    """One log that could not be cleaned; None if the labels name none."""
    topic, partition = labels.get("topic", ""), labels.get("partition", "")
    if not topic or not PARTITION.fullmatch(partition):
        return None
    return UncleanableLog(topic, int(partition), size_bytes, labels.get("reason", ""))


def metrics_of(named: Mapping[str, int], logs: Sequence[UncleanableLog]) -> DirectoryMetrics:
    """The samples of one directory."""
    full, healthy = named.get(f"{PREFIX}full"), named.get(LANE_HEALTHY)
    return DirectoryMetrics(
        named.get(f"{PREFIX}reserve_bytes"),
        named.get(f"{PREFIX}write_rate_bytes"),
        None if full is None else full != 0,
        named.get(f"{UNCLEANABLE}partitions_count"),
        named.get(f"{UNCLEANABLE}bytes"),
        tuple(logs),
        None if healthy is None else healthy == 0,
    )


def hint(brokers: Iterable[int]) -> str:
    """How to get the columns that are missing."""
    named = ", ".join(map(str, brokers))
    return (
        f"no reserve, rate, full, slow and uncleanable from broker {named}: --metrics 'http://{{host}}:9644/metrics'"
        " asks Penstock brokers with penstock.metrics.listener"
    )
