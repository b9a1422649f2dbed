"""A load and a stream on YARN, with everything that they write on HDFS: nothing is shared but that."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from interop.hadoop_peer import HadoopPeer
from interop.spark.load.support import publish
from support.packages import bare_environment, driver_command, driver_environment, zipped

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

import pyspark

from penstock.spark.lake.open import open_table
from penstock.spark.lake.verify import verify
from penstock.testing.broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.long]
PARTITIONS = 2
RECORDS = 60_000
PATIENCE_S = 1200
FILE = """
[pipeline]
name = "{name}"
job = "{job}"
checkpoints = "{uri}/checkpoints"
[kafka]
bootstrap = "{bootstrap}"
[options]
{options}
[spark]
spark.executor.memory = "512m"
spark.executor.instances = "2"
spark.driver.host = "127.0.0.1"
spark.driver.bindAddress = "127.0.0.1"
spark.yarn.jars = "local:{jars}/*"
spark.submit.pyFiles = "{package}"
"""
COPY = """
def run(context):
    copied = context.read("in").select("key", "value")
    return [context.write(copied, "out", query="copy")]
"""


def copied(broker: LocalBroker) -> int:
    """Records in the topic that the stream writes."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition("out", at))[1] for at in range(PARTITIONS))
    finally:
        consumer.close()


def test_a_load_and_a_stream_run_on_yarn(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(COPY)
    python = bare_environment(tmp_path / "bare")
    with HadoopPeer(tmp_path / "hadoop", yarn=True) as hadoop, LocalBroker() as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, PARTITIONS)
        publish(broker, "in", RECORDS, partitions=PARTITIONS)
        loaded = f'topics = ["in"]\ntable = "{hadoop.uri}/lake/in"\noffsets_per_job = 30000'
        files = []
        for name, job, options in (("lake", "load", loaded), ("copy", "job.py:run", "")):
            files.append(tmp_path / f"{name}.toml")
            files[-1].write_text(
                FILE.format(
                    name=name,
                    job=job,
                    options=options,
                    uri=hadoop.uri,
                    bootstrap=broker.bootstrap,
                    jars=Path(pyspark.__file__).parent / "jars",
                    package=zipped(tmp_path),
                )
            )
        log = tmp_path / "spark.log"
        words = ["pipeline", "run", *files, "--once", "--master", "yarn", "--state", tmp_path / "state"]
        done = subprocess.run(
            driver_command(*words, "--spark-log", log),
            env=driver_environment(python, HADOOP_CONF_DIR=str(hadoop.conf), SPARK_LOCAL_IP="127.0.0.1"),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        said = done.stdout + done.stderr + (log.read_text()[-6000:] if log.exists() else "")
        assert done.returncode == 0, said
        verdicts = verify(open_table(f"{hadoop.uri}/lake/in", "lake", create=False))
        assert all(verdict.clean for verdict in verdicts)
        assert sum(verdict.rows for verdict in verdicts) == RECORDS
        assert copied(broker) == RECORDS
        containers = list((tmp_path / "hadoop" / "yarn" / "logs").glob("application_*/container_*"))
        assert len(containers) >= 2, "nothing ran on YARN"
