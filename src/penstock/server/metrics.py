"""Metrics of the shell and the process, and the text format in which Prometheus reads all metrics."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from penstock.node.login_steps import LOGIN_LANE
from penstock.node.metrics import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Sample

if TYPE_CHECKING:
    from penstock.server.entrance import Entrance
    from penstock.server.histogram import Histogram
    from penstock.server.shell import Shell
    from penstock.server.tls import Tls

STARTED_S = time.time()
"""When this was imported: a server's process does so as it starts."""
SOCKETS = "kafka_server_socketservermetrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
WHOLE_MAX = 1e15
"""Below it a float that is a whole number is printed as one: counters that clients push are floats, and they grow."""


def shell_samples(shell: Shell) -> Iterator[Sample]:
    """Metrics of the loop, the sockets, the lanes and the workers."""
    yield from histogram_samples("penstock_loop_turn_seconds", "How long turns of the loop took.", shell.turn_seconds)
    text = "Quantiles of the same, within a factor of two."
    for quantile in (0.5, 0.99, 0.999):
        value = shell.turn_seconds.quantile_s(quantile)
        yield Sample("penstock_loop_turn_quantile_seconds", GAUGE, text, value, {"quantile": str(quantile)})
    yield Sample("penstock_connections", GAUGE, "Open client connections.", len(shell.connections))
    yield Sample("penstock_links", GAUGE, "Open connections to other nodes.", len(shell.links.connected))
    yield from entrance_samples(shell.entrance, shell.now_ms)
    yield Sample("penstock_receive_held_bytes", GAUGE, "Memory held by requests.", shell.pool.held_bytes)
    yield Sample("penstock_send_pieces_bytes", GAUGE, "File bytes waiting to be sent.", shell.unsent_pieces_bytes)
    text = "Wall clock ahead of the time that timers go by."
    yield Sample("penstock_clock_drift_ms", GAUGE, text, shell.clock.wall.ahead_ms)
    text = "Time in which the process was to run and did not."
    yield Sample("penstock_process_stopped_ms_total", COUNTER, text, shell.clock.wall.stopped_ms)
    lanes = [
        (lane, {"directory": "logins" if index == LOGIN_LANE else str(index)})
        for index, lane in shell.lanes.items()
        if index != LOGIN_LANE or lane.lane_operations
    ]
    for lane, labels in lanes:
        text = "Operations run on the loop."
        yield Sample("penstock_lane_inline_operations_total", COUNTER, text, lane.inline_operations, labels)
    for lane, labels in lanes:
        yield Sample("penstock_lane_operations_total", COUNTER, "Operations of lanes.", lane.lane_operations, labels)
    for lane, labels in lanes:
        yield Sample("penstock_lane_queued_operations", GAUGE, "Now in a lane.", lane.queued_operations, labels)
    for lane, labels in lanes:
        yield Sample("penstock_lane_healthy", GAUGE, "1: appends run on the loop.", int(lane.healthy), labels)
    if (workers := shell.workers) is not None:
        pools = workers.pools
        text = "Tasks that no worker has done: the lane did, or the batch was refused."
        yield Sample("penstock_worker_processes", GAUGE, "Worker processes.", sum(each.processes for each in pools))
        yield Sample("penstock_worker_tasks_total", COUNTER, "Tasks done by workers.", sum(each.done for each in pools))
        yield Sample("penstock_worker_tasks_failed_total", COUNTER, text, sum(each.failed for each in pools))


def entrance_samples(entrance: Entrance, now_ms: int) -> Iterator[Sample]:
    """Metrics of connections that come in, by listener, under Kafka's names where it has them."""
    text = "Connections closed because of the limits of their address."
    yield Sample("penstock_connections_refused_total", COUNTER, text, entrance.refused)
    text = "Connections closed, idle longest, because there were too many."
    yield Sample("penstock_connections_made_room_total", COUNTER, text, entrance.made_room)
    admission = entrance.admission
    listeners = [(counts, {"listener": name}) for name, counts in admission.listeners.items()]
    name, text = "penstock_connections_waiting", "1: connections wait before this listener."
    for _, labels in listeners:
        yield Sample(name, GAUGE, text, int(labels["listener"] in entrance.waiting), labels)
    name, text = f"{SOCKETS}_connection_count", "Open connections."
    for counts, labels in listeners:
        yield Sample(name, GAUGE, text, counts.connections, {**labels, "networkProcessor": "0"})
    name, text = f"{SOCKETS}_broker_connection_accept_rate", "New connections a second that count for the broker."
    yield Sample(name, GAUGE, text, admission.rate.per_second(now_ms))
    name, text = f"{SOCKETS}_connection_accept_rate", "New connections a second."
    for counts, labels in listeners:
        yield Sample(name, GAUGE, text, counts.rate.per_second(now_ms), labels)
    name, text = f"{SOCKETS}_connection_accept_throttle_time_total", "Milliseconds that rates made connections wait."
    for counts, labels in listeners:
        yield Sample(name, COUNTER, text, counts.throttle_ms, labels)
    name = f"{SOCKETS}_ip_connection_accept_throttle_time_total"
    text = "Milliseconds after which connections above the rate of their address were closed."
    for counts, labels in listeners:
        yield Sample(name, COUNTER, text, counts.address_throttle_ms, labels)


def tls_samples(tls: Tls) -> Iterator[Sample]:
    """Metrics of keys and handshakes; none if no listener speaks TLS."""
    if not tls.watched:
        return
    text = "Days until the certificate of a listener expires."
    for listener, days in tls.days_left().items():
        yield Sample("penstock_tls_certificate_days_left", GAUGE, text, round(days, 3), {"listener": listener})
    text = "Changes of key and trust stores that were taken over."
    yield Sample("penstock_tls_reloads_total", COUNTER, text, tls.reloads)
    text = "Changes of key and trust stores that could not be used."
    yield Sample("penstock_tls_reloads_failed_total", COUNTER, text, tls.failed_reloads)
    text = "Steps of handshakes that run or wait for a thread."
    yield Sample("penstock_tls_handshake_steps", GAUGE, text, tls.handshake_steps)


def process_samples() -> Iterator[Sample]:
    """Metrics of the process, named as by Prometheus' own client libraries."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    name, text = "process_cpu_seconds_total", "Processor time of the process."
    yield Sample(name, COUNTER, text, used.ru_utime + used.ru_stime)
    yield Sample("process_start_time_seconds", GAUGE, "When the process began, since 1970.", STARTED_S)
    if (sizes := memory_bytes()) is not None:
        yield Sample("process_virtual_memory_bytes", GAUGE, "Virtual memory.", sizes[0])
        yield Sample("process_resident_memory_bytes", GAUGE, "Resident memory.", sizes[1])
    if (count := open_descriptors()) is not None:
        yield Sample("process_open_fds", GAUGE, "Open descriptors.", count)
    yield Sample("process_max_fds", GAUGE, "Descriptors allowed.", resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def memory_bytes() -> tuple[int, int] | None:
    """Virtual and resident size; None where the system does not report them cheaply (macOS)."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = file.read().split()
    except OSError:
        return None
    return int(pages[0]) * resource.getpagesize(), int(pages[1]) * resource.getpagesize()


def open_descriptors() -> int | None:
    """How many are open: from the directory's size on newer kernels, otherwise by listing it."""
    try:
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


def histogram_samples(name: str, text: str, histogram: Histogram) -> Iterator[Sample]:
    """A histogram in Prometheus' cumulative buckets, copied first: the loop goes on while samples are taken."""
    cumulated, count, sum_s = list(accumulate(histogram.buckets)), histogram.count, histogram.sum_s
    for bucket, seen in enumerate(cumulated):
        yield Sample(f"{name}_bucket", HISTOGRAM, text, seen, {"le": f"{(1 << bucket) / 1e6:g}"})
    yield Sample(f"{name}_bucket", HISTOGRAM, text, count, {"le": "+Inf"})
    yield Sample(f"{name}_sum", HISTOGRAM, text, sum_s)
    yield Sample(f"{name}_count", HISTOGRAM, text, count)


class PrometheusText:
    """Samples in the text exposition format, piece by piece; `# TYPE` once for each family."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._family = ""

    def add(self, sample: Sample) -> None:
        """Adds the next sample; samples of one family follow each other."""
        family = family_of(sample)
        if family != self._family:
            self._family = family
            self._lines.append(f"# HELP {family} {sample.help}")
            self._lines.append(f"# TYPE {family} {sample.kind}")
        labels = ",".join([f'{key}="{escaped(value)}"' for key, value in sample.labels.items()])
        self._lines.append(f"{sample.name}{f'{{{labels}}}' if labels else ''} {number(sample.value)}")

    def take(self) -> bytes:
        """The text added since the last call."""
        lines, self._lines = self._lines, []
        return "".join([f"{line}\n" for line in lines]).encode()


def family_of(sample: Sample) -> str:
    """The name for `# TYPE`: histograms and summaries have several names."""
    if sample.kind in (HISTOGRAM, SUMMARY):
        return sample.name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
    return sample.name


def number(value: float) -> str:
    """A value in the format; whole numbers exactly."""
    is_whole = isinstance(value, int) or (value.is_integer() and abs(value) < WHOLE_MAX)
    return str(int(value)) if is_whole else f"{value:.10g}"


def escaped(value: str) -> str:
    """A label value, escaped for the format."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
