"""A mirror in a process of its own that kills itself at a step: `SOURCE TARGET TOPIC STEP:NTH`, or "" for none."""

from __future__ import annotations

import os
import signal
import sys

from penstock.pipelines.jobs.mirror import Mirror
from penstock.pipelines.jobs.mirror_sending import Step
from penstock.pipelines.jobs.mirror_topics import Choice


def main() -> None:
    source, target, topic, at = sys.argv[1:]
    name, _, nth = at.partition(":")
    left = int(nth or 0)

    def reached(step: Step) -> None:
        nonlocal left
        if step.name == name:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    mirror = Mirror((source, target), Choice([topic]), "killed", reached=reached)
    while mirror.step() is not None:
        continue
    mirror.close()


if __name__ == "__main__":
    main()
