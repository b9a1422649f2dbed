"""The shell's own figures, and the text form in which Prometheus reads all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from penstock.node.metrics import COUNTER, GAUGE, Sample

if TYPE_CHECKING:
    from penstock.server.histogram import Histogram
    from penstock.server.shell import Shell

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def shell_samples(shell: Shell) -> Iterator[Sample]:
    """Figures of the loop, the sockets and the lanes."""
    yield from histogram_samples("penstock_loop_callback_seconds", "How long callbacks took.", shell.callback_seconds)
    text = "Quantiles of the same, within a factor of two."
    for quantile in (0.5, 0.99, 0.999):
        value = shell.callback_seconds.quantile_s(quantile)
        yield Sample("penstock_loop_callback_quantile_seconds", GAUGE, text, value, {"quantile": str(quantile)})
    yield Sample("penstock_connections", GAUGE, "Open client connections.", len(shell.connections))
    yield Sample("penstock_links", GAUGE, "Open connections to other nodes.", len(shell.links.up))
    text = "Connections closed at once because of a limit."
    yield Sample("penstock_connections_refused_total", COUNTER, text, shell.refused_connections)
    yield Sample("penstock_receive_held_bytes", GAUGE, "Memory held by requests.", shell.pool.held_bytes)
    yield Sample("penstock_send_pieces_bytes", GAUGE, "File bytes waiting to be sent.", shell.unsent_pieces_bytes)
    yield Sample("penstock_clock_drift_ms", GAUGE, "Wall clock ahead of ours.", shell.clock.drift_ms)
    lanes = [(lane, {"directory": str(index)}) for index, lane in shell.lanes.items()]
    for lane, labels in lanes:
        text = "Operations run on the loop."
        yield Sample("penstock_lane_inline_operations_total", COUNTER, text, lane.inline_operations, labels)
    for lane, labels in lanes:
        yield Sample("penstock_lane_operations_total", COUNTER, "Operations of lanes.", lane.lane_operations, labels)
    for lane, labels in lanes:
        yield Sample("penstock_lane_queued_operations", GAUGE, "Now in a lane.", lane.queued_operations, labels)
    for lane, labels in lanes:
        yield Sample("penstock_lane_healthy", GAUGE, "1: appends run on the loop.", int(lane.healthy), labels)


def histogram_samples(name: str, text: str, histogram: Histogram) -> Iterator[Sample]:
    """A histogram in Prometheus' cumulative buckets."""
    seen = 0
    for bucket, count in enumerate(histogram.buckets):
        seen += count
        yield Sample(f"{name}_bucket", "histogram", text, seen, {"le": f"{(1 << bucket) / 1e6:g}"})
    yield Sample(f"{name}_bucket", "histogram", text, histogram.count, {"le": "+Inf"})
    yield Sample(f"{name}_sum", "histogram", text, histogram.sum_s)
    yield Sample(f"{name}_count", "histogram", text, histogram.count)


def prometheus_text(samples: Iterable[Sample]) -> str:
    """Samples in the text exposition format; `# TYPE` once for each family."""
    lines: list[str] = []
    family = ""
    for sample in samples:
        name = sample.name
        if sample.kind == "histogram":
            name = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        if name != family:
            family = name
            lines.append(f"# HELP {name} {sample.help}")
            lines.append(f"# TYPE {name} {sample.kind}")
        labels = ",".join(f'{key}="{escaped(value)}"' for key, value in sample.labels.items())
        lines.append(
            f"{sample.name}{{{labels}}} {sample.value:.10g}" if labels else f"{sample.name} {sample.value:.10g}"
        )
    return "\n".join(lines) + "\n"


def escaped(value: str) -> str:
    """A label value as the format wants it."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
