"""Spark as an ordinary user of a secured cluster: reads, writes, streams and loads; and no secret shows anywhere.

One driver does all of it with the event log on; then everything that it has printed, logged or left in files is searched
for the canaries that its options had.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.config.jaas import PLAIN_MODULE
from penstock.errors import PenstockError
from penstock.testing.broker import LocalBroker

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.spark.java import find_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PASSWORD, TRUST = "canary-of-alice", "canary-of-a-store"
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
    "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.secured.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{PASSWORD}";',
}
DRIVER = """
import sys
from pathlib import Path
from penstock.client.client import READ_UNCOMMITTED
from penstock.spark.load.load import Load, LoadOptions
from penstock.spark.read.group_listener import GroupListener
from penstock.spark.security import security_of
from penstock.spark.session import session

bootstrap, directory, module, password, trust = sys.argv[1:]
Path(directory, "log").mkdir()
options = {
    "kafka.bootstrap.servers": bootstrap, "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": f'{module} required username="alice" password="{password}";',
    "kafka.ssl.truststore.password": trust,
}
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


def test_all_of_spark_works_and_shows_no_secret(tmp_path: Path) -> None:
    try:
        find_java()
    except PenstockError as error:
        pytest.skip(str(error))
    with LocalBroker(SETTINGS) as broker:
        broker.create_topic("one", 2)
        broker.create_topic("two", 1)
        words = [broker.addresses["SECURED"], str(tmp_path), PLAIN_MODULE, PASSWORD, TRUST]
        ended = subprocess.run(
            [sys.executable, "-c", DRIVER, *words], capture_output=True, text=True, timeout=280, check=False, cwd=tmp_path
        )
    printed = ended.stdout + ended.stderr
    assert ended.returncode == 0, printed[-6000:]
    assert printed.count("refuses the login of alice by PLAIN") >= 2
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    logged = "".join(path.read_text() for path in (tmp_path / "log").rglob("*") if path.is_file())
    assert "SparkListenerSQLExecutionStart" in logged
    assert any("checkpoint" in path.parts for path in files)
    for canary in (PASSWORD, TRUST):
        shown = [str(path.relative_to(tmp_path)) for path in files if canary.encode() in path.read_bytes()]
        assert shown == []
        lines = [line[:300] for line in printed.splitlines() if canary in line]
        assert lines == []
