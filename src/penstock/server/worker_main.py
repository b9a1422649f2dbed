"""A worker process: `python -m penstock.server.worker_main [gives-way]`, started only by `server.workers`.

Its standard input is a socket: it gets tasks and sends reports, one after the other, until the broker closes the
socket. It gives way to the broker when memory is short, and with `gives-way` for processor and disk, too. It dies with
the broker, at once: the kernel ends it where it can, and otherwise a thread that waits for the end of the socket.
"""

from __future__ import annotations

import os
import platform
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from penstock.log.disk import Buffer
from penstock.server.disk import BlockingDisk
from penstock.server.limits import PACED_BYTES
from penstock.server.worker_messages import (
    LENGTH,
    Done,
    Failed,
    GarbageError,
    GoOn,
    Moved,
    Order,
    Ready,
    decode,
    encode,
    release,
)

NICENESS = 10
FIRST_TO_DIE = b"500"
"""How much sooner than others the kernel ends a worker when memory is short (oom_score_adj)."""
FILES_MAX = 64
PR_SET_PDEATHSIG = 1
IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
"""The number of the system call by machine. Python has no name for it."""
IOPRIO_WHO_PROCESS = 1
IOPRIO_CLASS_IDLE = 3 << 13


def main() -> None:
    """Runs tasks until the broker has no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    broker = socket.socket(fileno=0)
    threading.Thread(target=die_with_the_broker, name="the broker's end", daemon=True).start()
    give_way(niced="gives-way" in sys.argv[1:])
    broker.sendall(encode(Ready(release())))
    while True:
        try:
            body = receive(broker)
        except EOFError:
            return
        broker.sendall(encode(answer(body, broker)))


def receive(broker: socket.socket) -> bytearray:
    """The next message. Raises EOFError if there are no more."""
    (length,) = LENGTH.unpack(receive_exactly(broker, LENGTH.size))
    return receive_exactly(broker, length)


def receive_exactly(broker: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        received = broker.recv_into(view)
        if not received:
            raise EOFError
        view = view[received:]
    return data


class PacedDisk(BlockingDisk):
    """A log directory of which the broker is told what was read and written, and which waits until it says to go on."""

    def __init__(self, path: str, broker: socket.socket, *, writable: bool) -> None:
        super().__init__(0, path, descriptors_max=FILES_MAX, writable=writable, probed=False)
        self._broker = broker
        self._moved_bytes = 0

    def read(self, path: str, position: int, length: int) -> bytes:
        data = super().read(path, position, length)
        self._moved(len(data))
        return data

    def write(self, path: str, position: int, chunks: Sequence[Buffer]) -> None:
        super().write(path, position, chunks)
        self._moved(sum(map(len, chunks)))

    def _moved(self, count: int) -> None:
        self._moved_bytes += count
        if self._moved_bytes >= PACED_BYTES:
            self._broker.sendall(encode(Moved(self._moved_bytes)))
            self._moved_bytes = 0
            if decode(receive(self._broker)) != GoOn():
                raise GarbageError("a task that waits is told to go on")


def disk_of(order: Order, broker: socket.socket) -> BlockingDisk:
    writable = order.task.writes
    if order.task.paced:
        return PacedDisk(order.path, broker, writable=writable)
    return BlockingDisk(0, order.path, descriptors_max=FILES_MAX, writable=writable, probed=False)


def answer(body: bytes | bytearray, broker: socket.socket) -> Done | Failed:
    """Runs the task of a message. Its files are opened anew, since the broker changes them between tasks."""
    try:
        order = decode(body)
        if not isinstance(order, Order):
            raise GarbageError(f"{type(order).__name__} is no task")
        disk = disk_of(order, broker)
        try:
            return Done(order.task.run(disk))
        finally:
            disk.close()
    except EOFError:
        os._exit(0)  # the broker is gone
    except MemoryError:
        os._exit(1)  # the broker is not to try what takes so much
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else None
        return Failed(f"{type(error).__name__}: {error}", raised=True, errno=number)


def die_with_the_broker() -> None:
    """Ends the process, whatever it is doing, when the broker's end of the socket is closed."""
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    os._exit(0)


def give_way(*, niced: bool) -> None:
    """Lowers priorities (`niced`: also processor and disk), and ends with the broker's thread that started this."""
    if niced:
        os.nice(NICENESS)
    if sys.platform != "linux":
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    number = IOPRIO_SET.get(platform.machine())
    if niced and number is not None:
        libc.syscall(number, IOPRIO_WHO_PROCESS, 0, IOPRIO_CLASS_IDLE)
    with suppress(OSError), open("/proc/self/oom_score_adj", "wb") as file:
        file.write(FIRST_TO_DIE)


if __name__ == "__main__":
    main()
