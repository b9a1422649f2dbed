"""Spark's event log, which its page shows, too, has nothing that gives access to brokers, stores or registries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.testing.broker import LocalBroker

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.spark.java import find_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]
HIDDEN = "hidden-word"
DRIVER = """
import sys
from penstock.spark.load.writing import LoadSource
from penstock.spark.session import session

bootstrap, log, hidden = sys.argv[1:]
spark = session("an application with secrets", master="local[1]", settings={
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": log, "spark.eventLog.compress": "false",
    "spark.hadoop.fs.s3a.secret.key": hidden, "spark.hadoop.sasl.jaas.config": hidden,
    "spark.registry.basic.auth.user.info": hidden, "spark.ssl.keystore": hidden, "spark.AWS_ACCESS_KEY_ID": hidden,
    "spark.registry.url": f"http://name:{hidden}@registry",
})
rows = spark.range(3).selectExpr("cast(id as string) value").write.format("penstock").mode("append")
rows = rows.option("kafka.bootstrap.servers", bootstrap).option("topic", "out").option("kafka.client.id", "shown-word")
rows.option("kafka.sasl.username", hidden).option("kafka.sasl.password", hidden).save()
spark.dataSource.register(LoadSource)
try:
    spark.read.format("penstock-load").option("plan", hidden).load().collect()
except Exception:
    pass  # it is no plan, but Spark has logged the query
spark.stop()
"""


def test_secrets_of_settings_and_options_are_not_logged(tmp_path: Path) -> None:
    try:
        find_java()
    except PenstockError as error:
        pytest.skip(str(error))
    with LocalBroker() as broker:
        broker.create_topic("out", 1)
        words = [sys.executable, "-c", DRIVER, broker.bootstrap, tmp_path.as_uri(), HIDDEN]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    logged = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "an application with secrets" in logged
    assert "SparkListenerSQLExecutionStart" in logged
    assert HIDDEN not in logged
