"""Operational data of this machine, as events: what a monitoring agent would publish every second.

Each event is a flat JSON object with `kind` (cpu, memory, disk, network, process), the host, the time in epoch
milliseconds and the figures of that kind. Rates are since the last reading.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from typing import Any

import psutil

TOP_PROCESSES = 8
TAKES_VALUE = {"java": ("-cp", "-classpath", "--class-path", "--add-modules", "--add-opens"), "python": ("-W", "-X")}
"""Options of the interpreters whose next word belongs to them."""
IDENTITIES = ("core", "disk", "interface", "pid")

Event = dict[str, Any]


class Machine:
    """Reads the machine. Keeps what the last reading saw, because rates need two."""

    def __init__(self) -> None:
        self.host = socket.gethostname()
        self._at = time.monotonic()
        self._disks = psutil.disk_io_counters(perdisk=True) or {}
        self._networks = psutil.net_io_counters(pernic=True)
        self._processes: dict[int, psutil.Process] = {}
        self._cores = psutil.cpu_times(percpu=True)

    def read(self) -> list[Event]:
        now = time.monotonic()
        seconds, self._at = max(1e-3, now - self._at), now
        common = {"host": self.host, "time_ms": int(time.time() * 1000)}
        events = [
            *self._cpu(),
            self._memory(),
            *self._disk_rates(seconds),
            *self._network_rates(seconds),
            *self._top_processes(),
        ]
        return [common | event for event in events]

    def key(self, event: Event) -> str:
        """The subject of an event: `cpu 0`, `disk vda`, `process 4711`."""
        return f"{event['kind']} {next((event[name] for name in IDENTITIES if name in event), self.host)}"

    def _cpu(self) -> list[Event]:
        load = psutil.getloadavg()[0]
        before, self._cores = self._cores, psutil.cpu_times(percpu=True)
        return [
            {"kind": "cpu", "core": core, "busy_percent": busy_percent(*times), "load_1m": load}
            for core, times in enumerate(zip(before, self._cores, strict=False))
        ]

    def _memory(self) -> Event:
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        return {
            "kind": "memory",
            "total_bytes": memory.total,
            "used_bytes": memory.total - memory.available,
            "swap_used_bytes": swap.used,
        }

    def _disk_rates(self, seconds: float) -> list[Event]:
        before, self._disks = self._disks, psutil.disk_io_counters(perdisk=True) or {}
        return [
            {
                "kind": "disk",
                "disk": name,
                "read_bytes_per_s": (now.read_bytes - before[name].read_bytes) / seconds,
                "write_bytes_per_s": (now.write_bytes - before[name].write_bytes) / seconds,
            }
            for name, now in self._disks.items()
            if name in before and not name.startswith(("loop", "ram"))
        ]

    def _network_rates(self, seconds: float) -> list[Event]:
        before, self._networks = self._networks, psutil.net_io_counters(pernic=True)
        return [
            {
                "kind": "network",
                "interface": name,
                "in_bytes_per_s": (now.bytes_recv - before[name].bytes_recv) / seconds,
                "out_bytes_per_s": (now.bytes_sent - before[name].bytes_sent) / seconds,
            }
            for name, now in self._networks.items()
            if name in before
        ]

    def _top_processes(self) -> list[Event]:
        """The processes that used most CPU since the last reading."""
        alive = {}
        events = []
        for pid in psutil.pids():
            with contextlib.suppress(psutil.Error):
                process = alive[pid] = self._processes.get(pid) or psutil.Process(pid)
                with process.oneshot():
                    busy = process.cpu_percent()
                    if busy > 0:
                        resident = process.memory_info().rss
                        name = name_of(process)
                        events.append(
                            {
                                "kind": "process",
                                "pid": pid,
                                "name": name,
                                "cpu_percent": busy,
                                "resident_bytes": resident,
                            }
                        )
        self._processes = alive
        return sorted(events, key=lambda event: -event["cpu_percent"])[:TOP_PROCESSES]


def busy_percent(before: Any, now: Any) -> float:
    """A core's busy share between two readings of its times. psutil's own keeps its last reading a thread."""
    spent = [max(0.0, new - old) for old, new in zip(before, now, strict=True)]
    fields = dict(zip(now._fields, spent, strict=True))
    idle = fields["idle"] + fields.get("iowait", 0.0)
    total = sum(spent) - fields.get("guest", 0.0) - fields.get("guest_nice", 0.0)  # guests are in user and nice too
    return 100.0 * max(0.0, 1 - idle / total) if total > 0 else 0.0


def name_of(process: psutil.Process) -> str:
    """A process's name; of an interpreter also what it runs, else every one of them is called python or java."""
    return name_from(str(process.name()), process.cmdline())


def name_from(name: str, words: Sequence[str]) -> str:
    """`penstock dev`, `python script.py`, `java Main`: a process's name from its name and command line."""
    if not name.startswith(("python", "java", "penstock")):
        return name
    interpreter = "java" if name.startswith("java") else "python"
    takes_value = TAKES_VALUE[interpreter]
    plain = []
    after = iter(words[1:])
    for word in after:
        if word in takes_value:
            next(after, None)
        elif not word.startswith("-"):
            plain.append(word)
    programs = [word.rsplit("/", 1)[-1] for word in plain]
    if "penstock" in programs:
        return " ".join(programs[programs.index("penstock") :][:2])
    if interpreter == "java":
        programs = [program.removesuffix(".jar").rsplit(".", 1)[-1] for program in programs]
    return f"{interpreter} {programs[0]}"[:60] if programs else name
