"""The HTTP endpoint answers what Prometheus and an orchestrator ask, and closes on everything else."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.node.metrics import COUNTER, Sample
from penstock.server.histogram import Histogram
from penstock.server.http import HttpEndpoint
from penstock.server.limits import HTTP_CONNECTIONS_MAX, HTTP_HEAD_MAX_BYTES
from penstock.server.metrics import PrometheusText, histogram_samples, process_samples, shell_samples

SAMPLES = [
    Sample("kafka_server_brokertopicmetrics_messagesin_total", COUNTER, "Records appended.", 7),
    Sample("kafka_server_brokertopicmetrics_messagesin_total", COUNTER, "Records appended.", 3, {"topic": 'a"b\\c'}),
]


class Endpoint:
    """The endpoint on a loop of its own."""

    def __init__(self, **given: Any) -> None:
        self.ready = False
        self.samples: Iterable[Sample] = SAMPLES
        self.bugs: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.notes: list[str] = []
        self.endpoint = HttpEndpoint(
            lambda: self.samples,
            lambda: self.ready,
            lambda what, error: self.bugs.append(f"{what}: {error}"),
            lambda: self.notes,
            **given,
        )
        self.address = self.loop.run_until_complete(self.endpoint.start("127.0.0.1:0"))
        self.port = int(self.address.rpartition(":")[2])

    def ask(self, request: bytes) -> bytes:
        async def exchange() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(request)
            answer = await asyncio.wait_for(reader.read(), 5)
            writer.close()
            return answer

        return self.loop.run_until_complete(exchange())


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.loop.run_until_complete(made.endpoint.stop())
    made.loop.close()


def test_metrics_are_in_prometheus_form(endpoint: Endpoint) -> None:
    head, _, body = endpoint.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert body.decode() == (
        "# HELP kafka_server_brokertopicmetrics_messagesin_total Records appended.\n"
        "# TYPE kafka_server_brokertopicmetrics_messagesin_total counter\n"
        "kafka_server_brokertopicmetrics_messagesin_total 7\n"
        'kafka_server_brokertopicmetrics_messagesin_total{topic="a\\"b\\\\c"} 3\n'
    )


def test_a_long_scrape_lets_others_have_their_turn(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.server.http.METRICS_STEP_MS", 0)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    seen: list[int] = []

    def samples() -> Iterator[Sample | None]:
        for number in range(50):
            seen.append(turns)
            yield Sample("many", COUNTER, "Many.", number, {"number": str(number)}) if number % 2 else None

    endpoint.endpoint._samples = samples
    task = endpoint.loop.create_task(others())
    body = endpoint.ask(b"GET /metrics HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")[2].decode()
    task.cancel()
    assert len(set(seen)) == 50, "a turn of others between any two samples"
    assert body.splitlines()[:3] == ["# HELP many Many.", "# TYPE many counter", 'many{number="1"} 1']
    assert len(body.splitlines()) == 2 + 25


def test_the_process_is_told_as_prometheus_clients_tell_it() -> None:
    found = {sample.name: sample.value for sample in process_samples()}
    assert found["process_cpu_seconds_total"] > 0
    assert 0 < found["process_start_time_seconds"] <= time.time()
    assert found["process_max_fds"] >= 16
    if sys.platform == "linux":
        assert found["process_resident_memory_bytes"] > 1 << 20
        assert found["process_virtual_memory_bytes"] >= found["process_resident_memory_bytes"]
        assert 3 <= found["process_open_fds"] <= found["process_max_fds"]


def test_health_and_readiness(endpoint: Endpoint) -> None:
    assert endpoint.ask(b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert endpoint.ask(b"GET /readyz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 503")
    endpoint.ready = True
    assert endpoint.ask(b"GET /readyz?verbose HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
    endpoint.notes = ["recovering /data: 3 of 7 logs left"]
    answer = endpoint.ask(b"GET /readyz HTTP/1.0\r\n\r\n")
    assert answer.endswith(b"\r\n\r\nready\nrecovering /data: 3 of 7 logs left\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [(b"GET /other HTTP/1.1\r\n\r\n", b"404"), (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"), (b"x\r\n\r\n", b"400")],
)
def test_anything_else_is_refused(endpoint: Endpoint, request_: bytes, status: bytes) -> None:
    assert endpoint.ask(request_).split(b" ")[1] == status


def test_a_bug_in_a_scrape_is_answered_and_told_and_the_next_one_works(endpoint: Endpoint) -> None:
    def broken() -> Iterator[Sample]:
        yield SAMPLES[0]
        raise RuntimeError("planted")

    endpoint.samples = broken()
    assert endpoint.ask(b"GET /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 500 ")
    assert endpoint.bugs == ["GET /metrics: planted"]
    endpoint.samples = SAMPLES
    assert endpoint.ask(b"GET /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_head_has_no_body(endpoint: Endpoint) -> None:
    assert endpoint.ask(b"HEAD /healthz HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\n")


def test_an_endless_head_is_cut(endpoint: Endpoint) -> None:
    assert endpoint.ask(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * HTTP_HEAD_MAX_BYTES) == b""


def test_too_many_connections_are_closed(endpoint: Endpoint) -> None:
    async def flood() -> bytes:
        held = [await asyncio.open_connection("127.0.0.1", endpoint.port) for _ in range(HTTP_CONNECTIONS_MAX)]
        while len(endpoint.endpoint._tasks) < HTTP_CONNECTIONS_MAX:
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        answer = await asyncio.wait_for(reader.read(), 5)
        for _, other in [*held, (reader, writer)]:
            other.close()
        return answer

    assert endpoint.loop.run_until_complete(flood()) == b""


def test_an_address_in_use_or_malformed_is_a_sentence(endpoint: Endpoint) -> None:
    other = HttpEndpoint(lambda: SAMPLES, lambda: True)
    with pytest.raises(ConfigError, match=r"penstock\.metrics\.listener: cannot listen on 127"):
        endpoint.loop.run_until_complete(other.start(endpoint.address))
    with pytest.raises(ConfigError, match=r"penstock\.metrics\.listener"):
        endpoint.loop.run_until_complete(other.start("nonsense"))


def text_of(samples: Iterable[Sample]) -> str:
    text = PrometheusText()
    for sample in samples:
        text.add(sample)
    return text.take().decode()


def test_a_histogram_is_cumulative_and_knows_its_quantiles() -> None:
    histogram = Histogram()
    for _ in range(999):
        histogram.add(0.000_003)
    histogram.add(0.02)
    assert histogram.quantile_s(0.5) == 0.000_004
    assert histogram.quantile_s(1.0) == 0.02
    lines = text_of(histogram_samples("h", "text", histogram)).splitlines()
    assert lines[:2] == ["# HELP h text", "# TYPE h histogram"]
    assert 'h_bucket{le="4e-06"} 999' in lines
    assert 'h_bucket{le="+Inf"} 1000' in lines
    assert "h_count 1000" in lines


def test_a_histogram_is_of_one_moment() -> None:
    """The loop goes on while its samples are taken in steps."""
    histogram = Histogram()
    values = []
    for sample in histogram_samples("h", "text", histogram):
        histogram.add(1.0)
        values.append(sample.value)
    assert values == [0] * len(values)


def test_the_shells_samples_of_one_name_follow_each_other(world: Any) -> None:
    text = text_of(shell_samples(world.shell))
    types = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    assert "penstock_loop_turn_quantile_seconds" in text


@pytest.fixture
def guarded() -> Iterator[Endpoint]:
    made = Endpoint(token="s3cret")
    yield made
    made.loop.run_until_complete(made.endpoint.stop())
    made.loop.close()


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"", b"401"),
        (b"Authorization: Bearer wrong\r\n", b"401"),
        (b"Authorization: Basic s3cret\r\n", b"401"),
        (b"Authorization: Bearer \r\n", b"401"),
        (b"authorization:  bearer s3cret \r\n", b"200"),
        (b"Accept: */*\r\nAuthorization: Bearer s3cret\r\n", b"200"),
    ],
)
def test_metrics_are_for_those_who_send_the_token(guarded: Endpoint, header: bytes, status: bytes) -> None:
    answer = guarded.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n")
    assert answer.split(b" ")[1] == status
    assert (b"messagesin" in answer) == (status == b"200")
    assert (b"WWW-Authenticate: Bearer" in answer) == (status == b"401")


def test_probes_need_no_token(guarded: Endpoint) -> None:
    assert guarded.ask(b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_whole_floats_are_printed_whole() -> None:
    text = PrometheusText()
    values = (12_345_678_901.0, -3.0, 1e20, 0.1, float("nan"), float("inf"))
    for value in values:
        text.add(Sample("m", COUNTER, "", value))
    printed = [line.split()[-1] for line in text.take().decode().splitlines() if not line.startswith("#")]
    assert printed == ["12345678901", "-3", "1e+20", "0.1", "nan", "inf"]
