"""A pipeline's file: small TOML, read into a Pipeline; everything that is wrong with it is told at once.

[pipeline]
name = "clicks"                    # its directory, its line in `status`; the file's name by default
job = "load"                       # built in, module:function, or file.py:function beside this file
interval_ms = 1000

[kafka]
bootstrap = "127.0.0.1:9092"
isolation.level = "read_committed"

[options]                          # what the job declares
topics = ["clicks"]

[spark]                            # settings of the session, which the pipelines of one run share
spark.sql.shuffle.partitions = 4

[restart]
attempts = 5
[dead_letters]
topic = "clicks-dead"              # or table = "lake/dead"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.client.security import UNSECURED, ClientSecurity
from penstock.pipelines.job import Job
from penstock.pipelines.models.project import Project


@dataclass(frozen=True, slots=True)
class Restart:
    """What happens after a failure: `attempts` starts in a row, waiting `backoff_ms` doubled each time.

    A run that lasted `healthy_after_ms` counts as good: the attempts begin anew.
    """

    attempts: int = 5
    backoff_ms: int = 1_000
    backoff_max_ms: int = 60_000
    healthy_after_ms: int = 60_000

    def wait_ms(self, failures: int) -> int:
        """How long to wait after this many failures in a row (1 or more)."""
        return min(self.backoff_max_ms, self.backoff_ms << min(failures - 1, 30))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A declared pipeline that has been checked. `directory` is its own; `file` is where it was declared;
    `checkpoints` is the directory or URI of its streaming queries' checkpoints; `commits_offsets` whether each query's
    place is committed to the consumer group of its name."""

    name: str
    job_name: str
    job: Job
    bootstrap: str
    options: Mapping[str, Any]
    directory: Path
    file: Path | None = None
    interval_ms: int = 1_000
    checkpoints: str = ""
    commits_offsets: bool = False
    kafka: Mapping[str, str] = field(default_factory=dict)
    security: ClientSecurity = UNSECURED
    spark: Mapping[str, str] = field(default_factory=dict)
    restart: Restart = field(default_factory=Restart)
    dead_letter_topic: str | None = None
    dead_letter_table: str | None = None
    project: Project | None = None
    """Its models, where the file has them in place of a job."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a file; `line` is 0 when it is about no line."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"
