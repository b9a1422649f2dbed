"""Nodes of a Guardian as processes of their own, started by `penstock guardian start`.

guardian = Guardian(tmp_path, nodes=1)
guardian.format()
guardian.start(1)
guardian.said("clusters", "list")
guardian.stop()
"""

from __future__ import annotations

import contextlib
import io
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from penstock.cli.main import main
from support.processes import PENSTOCK, free_ports

GUARDIAN_ID = "5L6g3nShT-eMCtK--X86sw"


class Guardian:
    """Some nodes of one Guardian, each a process."""

    def __init__(self, directory: Path, nodes: int = 3, **settings: str) -> None:
        self.directory = directory
        self.ports = dict(enumerate(free_ports(nodes), start=1))
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in self.ports.items())
        for node_id in self.ports:
            lines = {
                "node.id": str(node_id),
                "listener": f"127.0.0.1:{self.ports[node_id]}",
                "voters": voters,
                "data.dir": str(self.data(node_id)),
                **settings,
            }
            self.file(node_id).write_text("".join(f"penstock.guardian.{name}={text}\n" for name, text in lines.items()))

    def file(self, node_id: int) -> Path:
        return self.directory / f"guardian-{node_id}.properties"

    def data(self, node_id: int) -> Path:
        return self.directory / f"data-{node_id}"

    @property
    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def format(self) -> None:
        for node_id in self.ports:
            assert main(["guardian", "format", str(self.file(node_id)), "--guardian-id", GUARDIAN_ID]) == 0

    def start(self, node_id: int) -> None:
        log = (self.directory / f"node-{node_id}.log").open("ab")
        command = [*PENSTOCK, "guardian", "start", str(self.file(node_id))]
        self.processes[node_id] = subprocess.Popen(command, stderr=log)
        log.close()

    def kill(self, node_id: int) -> None:
        process = self.processes.pop(node_id)
        process.kill()
        process.wait()

    def stop(self) -> list[int]:
        """Stops all nodes; their exit codes."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(20) for process in self.processes.values()]
        self.processes.clear()
        return codes

    def said(self, *words: str, code: int = 0) -> str:
        """What `penstock guardian` prints, asked of this Guardian; `code`: with which it has to end."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            found = main(["guardian", *words, "--guardian", self.addresses])
        assert found == code, out.getvalue() + err.getvalue()
        return out.getvalue() + err.getvalue()

    def json(self, *words: str) -> Any:
        """The same as JSON."""
        return json.loads(self.said(*words, "--json"))
