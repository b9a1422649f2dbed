"""Spark's own Kafka connector as a peer: its jars, and a Python of its own with the Spark that it was released with.

The connector of 4.2.0 also runs in the Spark 4.3 of the tests, so `add_to(session)` is all that they need:

    add_to(spark)
    spark.read.format("kafka").option("kafka.bootstrap.servers", ...)

A benchmark that must not blame the connector for a Spark it does not know runs it with `matched_python()`.

The jars come by Maven and Spark 4.2.0 by pip into `.cache` at first use. The connector depends on Spark's provider of
delegation tokens, of which it uses four classes; the Java sources in `token/` stand in for them and know no token.
Without Java or Maven the tests are skipped with the reason; with CI=true they fail instead.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from interop.kafka_peer import FETCH_TIMEOUT_S, ROOT, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = "4.2.0"
CACHE = ROOT / ".cache"
JARS = CACHE / f"spark-kafka-{VERSION}"
PYTHON = CACHE / f"pyspark-{VERSION}"
POM = Path(__file__).with_name("pom.xml")
TOKEN_SOURCES = Path(__file__).with_name("token")
INSTALL_TIMEOUT_S = 900
JDK_PACKAGE = "openjdk-17-jdk-headless"


def missing() -> str | None:
    """Why the connector cannot be had on this machine, or None when it can."""
    if shutil.which("javac") is None:
        return f"no Java development kit on the PATH (apt-get install {JDK_PACKAGE})"
    if not JARS.exists() and shutil.which("mvn") is None:
        return "the connector's jars are not there and there is no Maven to fetch them (apt-get install maven)"
    return None


def jars() -> list[Path]:
    """The jars that a Spark needs for `format("kafka")`, fetched and compiled when they are not there."""
    fetch_jars()
    return [*sorted(JARS.glob("*.jar")), token_jar()]


def fetch_jars() -> None:
    """Copies the connector, Kafka's client and its pool into the cache."""
    if JARS.exists():
        return
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        copied = Path(scratch, "jars")
        copied.mkdir()
        command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={copied}"]
        run(command, timeout_s=FETCH_TIMEOUT_S, cwd=scratch)
        with suppress(OSError):  # somebody else was faster
            copied.rename(JARS)


def token_jar() -> Path:
    """The stand-in for the provider of tokens, compiled against the Spark of this Python, once for each text of it."""
    import pyspark

    sources = sorted(TOKEN_SOURCES.glob("*.java"))
    text = b"".join(source.read_bytes() for source in sources)
    jar = CACHE / "java-classes" / f"spark-token-{hashlib.sha256(text).hexdigest()[:20]}.jar"
    if jar.exists():
        return jar
    jar.parent.mkdir(parents=True, exist_ok=True)
    spark_jars = Path(pyspark.__path__[0], "jars")
    classpath = [*spark_jars.glob("scala-library*.jar"), *spark_jars.glob("spark-core_*.jar")]
    with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
        classes = Path(scratch, "classes")
        options = ["-nowarn", "-proc:none", "-cp", os.pathsep.join(map(str, classpath)), "-d", str(classes)]
        run(["javac", *options, *map(str, sources)])
        fresh = Path(scratch, jar.name)
        with zipfile.ZipFile(fresh, "w") as archive:
            for path in sorted(classes.rglob("*.class")):
                archive.write(path, path.relative_to(classes))
        fresh.replace(jar)
    return jar


def add_to(spark: SparkSession) -> None:
    """Lets a running session read and write `format("kafka")`."""
    for jar in jars():
        spark.sql(f"ADD JAR '{jar}'")


def matched_python(python: str) -> Path:
    """The interpreter of a virtual environment with the connector's own Spark, made by `python` when it is not there.

    It takes some 450 MB and, from a warm mirror, half a minute.
    """
    interpreter = PYTHON / "bin" / "python"
    ready = PYTHON / "ready"
    if ready.exists():
        return interpreter
    run([python, "-m", "venv", "--clear", str(PYTHON)])
    install = ["-E", "-m", "pip", "install", "-q", "--disable-pip-version-check", f"pyspark=={VERSION}"]
    run([str(interpreter), *install], timeout_s=INSTALL_TIMEOUT_S)
    ready.touch()
    return interpreter
