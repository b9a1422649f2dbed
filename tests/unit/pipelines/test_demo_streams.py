"""What the demo publishes: the broker's activity out of its metrics page, and processes by telling names."""

from __future__ import annotations

import pytest

from penstock.pipelines.demo.activity import differences, parse
from penstock.pipelines.demo.machine import name_from

PAGE = """\
# HELP kafka_network_requestmetrics_requests_total Requests.
# TYPE kafka_network_requestmetrics_requests_total counter
kafka_network_requestmetrics_requests_total{request="Fetch"} 10
kafka_network_requestmetrics_totaltimems_sum{request="Fetch"} 250.5
kafka_server_brokertopicmetrics_messagesin_total{topic="clicks"} 100
kafka_server_brokertopicmetrics_messagesin_total 100
process_resident_memory_bytes 1e6
"""
FETCHES = ("kafka_network_requestmetrics_requests_total", "Fetch")
FETCH_MS = ("kafka_network_requestmetrics_totaltimems_sum", "Fetch")
RECORDS = ("kafka_server_brokertopicmetrics_messagesin_total", "clicks")


def test_labelled_samples_are_read_and_others_passed_over() -> None:
    assert parse(PAGE) == {FETCHES: 10, FETCH_MS: 250.5, RECORDS: 100}


def test_only_what_is_new_becomes_an_event() -> None:
    last = {FETCHES: 10.0, FETCH_MS: 250.0, RECORDS: 100.0}
    now = {FETCHES: 14.0, FETCH_MS: 270.0, RECORDS: 100.0}
    assert list(differences(last, now)) == [{"kind": "request", "api": "Fetch", "requests": 4, "mean_ms": 5.0}]
    assert list(differences(last, last)) == []


def test_a_topic_that_was_not_there_counts_from_zero() -> None:
    assert list(differences({}, {RECORDS: 7.0})) == [
        {"kind": "topic", "topic": "clicks", "records_in": 7, "bytes_in": 0, "bytes_out": 0}
    ]


@pytest.mark.parametrize(
    ("name", "command", "shown"),
    [
        ("bash", ["bash", "-c", "x"], "bash"),
        ("python3.11", ["python3.11", "/srv/job.py", "--fast"], "python job.py"),
        ("python", ["python", "-m", "penstock", "dev", "--json"], "penstock dev"),
        ("penstock", ["/usr/bin/python", "/usr/bin/penstock", "demo"], "penstock demo"),
        ("java", ["java", "-cp", "/a/*:/b/*", "-Xmx1g", "org.apache.spark.deploy.SparkSubmit"], "java SparkSubmit"),
        ("java", ["java", "-jar", "/opt/app.jar"], "java app"),
        ("python", [], "python"),
    ],
)
def test_an_interpreter_is_called_by_what_it_runs(name: str, command: list[str], shown: str) -> None:
    assert name_from(name, command) == shown
