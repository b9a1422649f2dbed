"""Spark as an ordinary user of a secured cluster: reads, writes, streams and loads; and no secret shows anywhere.

One driver does all of it with the event log on; then everything that it has printed, logged or left in files is
searched for the canaries that its options had.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from interop.security.secured_penstock import PASSWORD, SecuredPenstock
from support.tls import PASSWORD as STORE_PASSWORD

from penstock.errors import PenstockError

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.spark.java import find_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DRIVER = """
import sys
from pathlib import Path
from penstock.client.client import READ_UNCOMMITTED
from penstock.spark.load.load import Load, LoadOptions
from penstock.spark.read.group_listener import GroupListener
from penstock.spark.security import security_of
from penstock.spark.session import session

bootstrap, directory, password, *given = sys.argv[1:]
Path(directory, "log").mkdir()
options = {"kafka.bootstrap.servers": bootstrap, **dict(zip(given[::2], given[1::2]))}
spark = session("a secured cluster", master="local[1]", settings={
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": Path(directory, "log").as_uri(),
    "spark.eventLog.compress": "false"})
listener = GroupListener(bootstrap, "audit", query="copy", options=options)
spark.streams.addListener(listener)

rows = spark.range(10).selectExpr("cast(id as string) value")
rows.write.format("penstock").mode("append").options(**options).option("topic", "one").save()
once = {"penstock.exactly.once": "true", "penstock.sink.id": "s", "penstock.staging": f"{directory}/staged"}
rows.write.format("penstock").mode("append").options(**options, **once).option("topic", "one").save()

read = spark.read.format("penstock").options(**options).option("subscribe", "one").load()
read.explain("extended")
read.explain("formatted")
print(read, options.keys(), read._jdf.queryExecution().toString())
assert read.count() == 20, read.count()

stream = spark.readStream.format("penstock").options(**options).option("subscribe", "one")
query = stream.option("startingOffsets", "earliest").load().select("value").writeStream.format("penstock")
query = query.options(**options).option("topic", "two").option("checkpointLocation", f"{directory}/checkpoint")
query = query.queryName("copy").trigger(availableNow=True).start()
query.awaitTermination()
print(query.lastProgress, query.status)
query.explain(True)
listener.wait()
assert spark.read.format("penstock").options(**options).option("subscribe", "two").load().count() == 20

security = security_of(options)
load = LoadOptions(bootstrap, ["one"], f"{directory}/table", "p", inline_offsets=0, security=security)
print(load)
with Load(spark, load) as running:
    while running.run_job() is not None:
        pass
import deltalake
assert deltalake.DeltaTable(f"{directory}/table").to_pyarrow_table().num_rows == 20

wrong = dict(options)
wrong["kafka.sasl.jaas.config"] = options["kafka.sasl.jaas.config"].replace(password, password + "-wrong")
for attempt in (
    lambda: spark.read.format("penstock").options(**wrong).option("subscribe", "one").load().count(),
    lambda: rows.write.format("penstock").mode("append").options(**wrong).option("topic", "one").save(),
):
    try:
        attempt()
    except Exception as error:
        print("REFUSED", error)
spark.stop()
"""


def test_all_of_spark_works_and_shows_no_secret(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        find_java()
    except PenstockError as error:
        pytest.skip(str(error))
    with SecuredPenstock(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topic("one", 2)
        broker.create_topic("two", 1)
        options = {**broker.store.properties(), **broker.properties()}
        given = [part for name, text in options.items() for part in (f"kafka.{name}", text)]
        words = [sys.executable, "-c", DRIVER, broker.secured, str(tmp_path), PASSWORD, *given]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=280, check=False, cwd=tmp_path)
    printed = ended.stdout + ended.stderr
    assert ended.returncode == 0, printed[-6000:]
    assert printed.count("refuses the login of alice by PLAIN") >= 2
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    logged = "".join(path.read_text() for path in (tmp_path / "log").rglob("*") if path.is_file())
    assert "SparkListenerSQLExecutionStart" in logged
    assert any("checkpoint" in path.parts for path in files)
    for canary in (PASSWORD, STORE_PASSWORD):
        shown = [str(path.relative_to(tmp_path)) for path in files if canary.encode() in path.read_bytes()]
        assert shown == []
        lines = [line[:300] for line in printed.splitlines() if canary in line]
        assert lines == []
