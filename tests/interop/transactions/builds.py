"""Java programs against other jars than those of `kafka_peer`: an old client, and Kafka Streams.

The jars come by Maven into `.cache`, once for each text of a pom; programs are compiled once for each text and pom.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from interop.kafka_peer import CLASSES, FETCH_TIMEOUT_S, ROOT, TOOL_OPTIONS, require_kafka, run

HERE = Path(__file__).parent
OLD_JAVA = HERE / "old_java" / "pom.xml"
STREAMS = HERE / "streams" / "pom.xml"


def jars_of(pom: Path) -> Path:
    """The directory of what a pom names, fetched when it is not there."""
    require_kafka()
    text = pom.read_bytes()
    target = ROOT / ".cache" / f"{pom.parent.name}-{hashlib.sha256(text).hexdigest()[:20]}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            copied = Path(scratch, "jars")
            copied.mkdir()
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={copied}"]
            run(command, timeout_s=FETCH_TIMEOUT_S, cwd=scratch)
            with suppress(OSError):  # somebody else was faster
                copied.rename(target)
    return target


def java_program(pom: Path, source: Path, *arguments: object, options: Sequence[str] = TOOL_OPTIONS) -> list[str]:
    """The command that runs a source's public class, which is named as its file, with the jars of a pom."""
    jars = jars_of(pom)
    text = source.read_bytes() + str(jars.name).encode()
    target = CLASSES / hashlib.sha256(text).hexdigest()[:20]
    if not target.exists():
        CLASSES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CLASSES) as scratch:
            out = Path(scratch, "out")
            run(["javac", "-proc:none", "-nowarn", "-cp", f"{jars}/*", "-d", str(out), str(source)])
            with suppress(OSError):  # somebody else was faster
                out.rename(target)
    return java_class(pom, source.stem, *arguments, options=options, classes=target)


def java_class(
    pom: Path, name: str, *arguments: object, options: Sequence[str] = TOOL_OPTIONS, classes: Path | None = None
) -> list[str]:
    """The command that runs a class of a pom's jars, or of `classes`."""
    path = os.pathsep.join([f"{jars_of(pom)}/*", *([] if classes is None else [str(classes)])])
    return ["java", *options, "-cp", path, name, *map(str, arguments)]
