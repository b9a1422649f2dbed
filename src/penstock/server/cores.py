"""How many cores the process may use: those that it may run on, and no more than its control groups pay for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def cores(groups: str = "/proc/self/cgroup", root: Path = Path("/sys/fs/cgroup")) -> int:
    """At least one. A quota is rounded down: when it is used up, the broker waits along with its workers.

    In a container the names of groups may be those of the host; then the container's own group is at the root.
    """
    if sys.platform != "linux":
        return os.cpu_count() or 1
    found = [float(len(os.sched_getaffinity(0)))]
    with suppress(OSError), open(groups) as lines:
        for line in lines:
            _, controllers, name = line.rstrip("\n").split(":", 2)
            if not controllers or "cpu" in controllers.split(","):
                own = root / ("cpu" if controllers else "") / name[1:]
                found += [quota for group in (own, *own.parents) for quota in quotas(group)]
    return max(1, int(min(found)))


def quotas(group: Path) -> Iterator[float]:
    """Cores by the quota of a control group of version 2 or 1, if it has any."""
    with suppress(OSError, ValueError):
        allowed, period = (group / "cpu.max").read_text().split()
        yield int(allowed) / int(period)
    with suppress(OSError, ValueError):
        allowed, period = ((group / f"cpu.cfs_{each}_us").read_text() for each in ("quota", "period"))
        if int(allowed) > 0:
            yield int(allowed) / int(period)
