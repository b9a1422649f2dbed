"""SQL over the topics of a running broker: what is answered, what is read for it, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.cli.main import main
from penstock.errors import ConfigError, PenstockError, RequestError
from penstock.sql.engine import Engine, Settings, SqlError
from penstock.testing.broker import LocalBroker

PARTITIONS, RECORDS, FIRST_MS = 3, 3000, 1_700_000_000_000
IN_ALL = RECORDS // PARTITIONS


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    """`my.topic-1`: record i in partition i % 3, second i, key i % 10. `clicks`: JSON, every tenth value is not."""
    with LocalBroker({"auto.create.topics.enable": "false"}) as broker:
        for topic in ("my.topic-1", "clicks", "Upper", "empty"):
            broker.create_topic(topic, PARTITIONS)
        config = {"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "batch.num.messages": 50}
        producer = Producer({**config, "log_level": 0})
        for i in range(RECORDS):
            headers = [("i", str(i))] if i % 2 else None
            where = {"partition": i % PARTITIONS, "timestamp": FIRST_MS + i * 1000}
            producer.produce("my.topic-1", f"value {i}", str(i % 10), headers=headers, **where)
            click = {"page": f"/p{i % 7}", "ms": -i if i > 2500 else i, "Offset": "mine", "in": {"list": [i, 1]}}
            producer.produce("clicks", json.dumps(click) if i % 10 else "{broken", **where)
        producer.produce("Upper", None, b"\xff")
        assert producer.flush(30) == 0
        yield broker


def rows(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    found: list[tuple[Any, ...]] = []
    for result in engine.run(query):
        found = [tuple(row.values()) for batch in result.batches for row in batch.to_pylist()]
    return found


def ask(broker: LocalBroker, query: str, **settings: Any) -> tuple[list[tuple[Any, ...]], int]:
    """The rows of a query, and how many records were read for them."""
    with Engine(broker.bootstrap, Settings(**settings)) as engine:
        found = rows(engine, query)
        return found, engine.read.records


@pytest.mark.parametrize("read", ["auto", "broker"])
def test_a_topic_is_a_table_of_the_connectors_columns(broker: LocalBroker, read: str) -> None:
    found, _ = ask(
        broker, """select * from "my.topic-1" where key = '1'::blob and "offset" = 7 order by partition""", read=read
    )
    assert len(found) == 1
    key, value, topic, partition, offset, timestamp, kind, headers = found[0]
    assert (key, value, topic, partition, offset, kind) == (b"1", b"value 21", "my.topic-1", 0, 7, 0)
    assert timestamp.timestamp() * 1000 == FIRST_MS + 21_000
    assert headers == [{"key": "i", "value": b"21"}]


def test_a_self_join_scans_the_topic_twice(broker: LocalBroker) -> None:
    query = 'select count(*) from "my.topic-1" a join "my.topic-1" b on a.key = b.key and a.partition = b.partition'
    assert ask(broker, query) == ([(RECORDS * RECORDS // 30,)], 2 * RECORDS)


def test_topics_are_joined_and_names_have_no_case(broker: LocalBroker) -> None:
    query = 'select count(*), max(upper.key) from CLICKS natural join "my.topic-1" full join upper on false'
    assert ask(broker, query)[0] == [(1, b"\xff")]


@pytest.mark.parametrize(
    ("where", "answer", "records"),
    [
        ('partition = 0 and "offset" >= 900', 100, 100),
        ('"offset" between 10 and 19', 30, 30),
        ("partition in (0, 2)", 2000, 2000),
        ('partition = 1 and ("offset" = 5 or "offset" = 7)', 2, 3),
        ("partition = 9", 0, 0),
        ("topic = 'other'", 0, 0),
        ("timestamp >= '2023-11-14 22:58:20Z'", 300, 300),
        ("timestamp >= '2099-01-01'", 0, 0),
        ("timestamp < '1970-01-02'", 0, RECORDS),
        ("decode(value) = 'value 7'", 1, RECORDS),
    ],
)
def test_only_what_a_filter_may_leave_is_read(broker: LocalBroker, where: str, answer: int, records: int) -> None:
    assert ask(broker, f'select count(*) from "my.topic-1" where {where}') == ([(answer,)], records)


def test_a_latest_time_ends_the_reading_where_times_are_in_order(broker: LocalBroker) -> None:
    query = (
        "select count(*) from \"my.topic-1\" where timestamp >= '2023-11-14 22:20Z' and timestamp < '2023-11-14 22:21Z'"
    )
    assert ask(broker, query) == ([(60,)], RECORDS - 400)
    assert ask(broker, query, in_order=True) == ([(60,)], 60)


def test_a_limit_ends_the_reading(broker: LocalBroker) -> None:
    broker.create_topic("long")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0, "linger.ms": 50})
    for _ in range(60_000):
        producer.produce("long", b"x" * 1000)
        producer.poll(0)
    assert producer.flush(60) == 0
    found, records = ask(broker, "select * from long limit 3")
    assert len(found) == 3
    assert records < 60_000


def test_all_statements_see_the_topics_as_they_were_at_the_start(broker: LocalBroker) -> None:
    broker.create_topic("growing")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.produce("growing", b"1")
    assert producer.flush(30) == 0
    with Engine(broker.bootstrap) as engine:
        counts = []
        for result in engine.run("select count(*) from growing; select count(*) from growing a, growing b"):
            counts += [batch.to_pylist() for batch in result.batches]
            producer.produce("growing", b"more")
            assert producer.flush(30) == 0
    assert counts == [[{"count_star()": 1}]] * 2


def test_json_values_are_columns(broker: LocalBroker) -> None:
    query = """select page, count(*), sum(ms), min("in".list[2]) from json.clicks
               where page < '/p2' group by page order by 1"""
    pages = [i for i in range(RECORDS) if i % 10]
    expected = [
        (f"/p{page}", len(some), sum(-i if i > 2500 else i for i in some), 1)
        for page in (0, 1)
        if (some := [i for i in pages if i % 7 == page])
    ]
    found, _ = ask(broker, query)
    assert [(page, count, int(total), least) for page, count, total, least in found] == expected


def test_values_that_are_no_json_are_rows_of_nulls(broker: LocalBroker) -> None:
    query = "select count(*), count(page), any_value(value) filter (page is null) from json.clicks"
    assert ask(broker, query)[0] == [(RECORDS, RECORDS * 9 // 10, b"{broken")]


def test_a_field_that_does_not_fit_its_column_is_null(broker: LocalBroker) -> None:
    broker.create_topic("drift")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for i in range(300):
        producer.produce("drift", json.dumps({"n": "many" if i == 150 else i}))
    assert producer.flush(30) == 0
    assert ask(broker, "select count(*), count(n), max(n) from json.drift", sample=20)[0] == [(300, 299, 299)]
    assert ask(broker, "select typeof(n) from json.drift limit 1", sample=1000)[0] == [("JSON",)]


def test_a_field_with_the_name_of_a_records_column_is_renamed(broker: LocalBroker) -> None:
    assert ask(broker, 'select distinct "value_Offset" from json.clicks where page is not null')[0] == [("mine",)]


def test_a_filter_on_json_columns_still_reads_only_the_offsets_asked_for(broker: LocalBroker) -> None:
    with Engine(broker.bootstrap, Settings(sample=60)) as engine:
        assert rows(engine, 'select count(*) from json.clicks where partition = 0 and "offset" < 10') == [(10,)]
        assert engine.read.records == 60 + 10


def test_results_are_kept_in_tables_and_views_of_the_session(broker: LocalBroker) -> None:
    query = """create table kept as select * from clicks where partition = 0;
               create view seen as select * from "my.topic-1";
               select (select count(*) from kept), (select count(*) from seen)"""
    assert ask(broker, query)[0] == [(IN_ALL, RECORDS)]
    assert ("my.topic-1",) in ask(broker, "show tables")[0]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("select * from clikcs", RequestError, r"there is no topic clikcs at 127\.0\.0\.1:\d+; did you mean clicks\?"),
        ("select * from json.nowhere", RequestError, "there is no topic json.nowhere"),
        ("select * from my.topic", RequestError, "there is no topic my.topic"),
        ("select offset from clicks", SqlError, r'\n  the column is written "offset", with quotes'),
        ("select max(Offset) from clicks", SqlError, r'\n  the column is written "offset", with quotes'),
        (
            "select * from my.topic-1",
            SqlError,
            r'line 1, column 23\)\n  a name with dots or dashes is quoted: "my.topic-1"',
        ),
        ("select\n  nope from clicks", SqlError, r'Referenced column "nope" not found.*\(line 2, column 3\)'),
        ("select * from json.empty", RequestError, "there is none among its records"),
        ('select * from json."my.topic-1"', RequestError, "not all are a JSON object"),
        ("select decode(key) from upper", SqlError, "could not convert blob to UTF8"),
        ("select * from read_csv('/etc/passwd')", SqlError, "file system operations are disabled"),
        ("copy clicks to '/tmp/clicks.csv'", SqlError, "file system operations are disabled"),
        ("install httpfs", SqlError, "file system operations are disabled"),
        ("set enable_external_access = true", SqlError, "Cannot enable external access"),
        ("select * from query", RequestError, "there is no topic query"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_line(
    broker: LocalBroker, query: str, error: type[PenstockError], message: str
) -> None:
    with pytest.raises(error, match=message):
        ask(broker, query)


def test_two_topics_that_differ_in_case_alone_are_told_apart_or_refused(broker: LocalBroker) -> None:
    for topic in ("twin", "Twin"):
        broker.create_topic(topic)
    assert ask(broker, "select count(*) from twin")[0] == [(0,)]
    with pytest.raises(SqlError, match="topics Twin and twin cannot be used together"):
        ask(broker, 'select count(*) from twin, "Twin"')


def test_a_memory_limit_that_is_none_is_refused(broker: LocalBroker) -> None:
    with pytest.raises(ConfigError, match="Unknown unit for memory"):
        Engine(broker.bootstrap, Settings(memory="10x"))


def test_what_does_not_fit_in_memory_spills(broker: LocalBroker) -> None:
    query = 'select count(*) from (select row_number() over (order by value desc, key) as n, * from "my.topic-1")'
    assert ask(broker, query, memory="40MB")[0] == [(RECORDS,)]


def test_the_command_prints_a_table_csv_or_json_or_writes_a_file(
    broker: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> str:
        assert main(["sql", *arguments, "--bootstrap", broker.bootstrap]) == 0
        return capsys.readouterr().out

    query = """select page, count(*) as n from json.clicks where "offset" < 7 and partition = 1
               group by page order by 1 limit 2"""
    assert run(query) == "page  n\n/p0   1\n/p1   1\n"
    assert run(query, "--csv") == "page,n\n/p0,1\n/p1,1\n"
    assert run(query, "--json") == '{"page": "/p0", "n": 1}\n{"page": "/p1", "n": 1}\n'
    assert run(query, "--parquet", str(tmp_path / "pages.parquet")) == ""
    assert (tmp_path / "pages.parquet").stat().st_size > 0
    assert run("create table two as select 2 as b; select b from two", "--csv") == "b\n2\n"
    read_back = f"select count(*) as files from read_parquet('{tmp_path}/pages.parquet')"
    assert run(read_back, "--allow-files", "--csv") == "files\n2\n"
    main(["sql", 'select "offset" from clicks', "--max-rows", "5", "--bootstrap", broker.bootstrap])
    out, said = capsys.readouterr()
    assert len(out.splitlines()) == 6
    assert "there are more" in said


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["  "], 2, "the query is empty"),
        (["select 1", "--bootstrap", "nowhere"], 2, "'nowhere' is not an address"),
        (["select 1", "--bootstrap", "127.0.0.1:1"], 1, "is a broker running there?"),
        (["select 1", "--sample", "0"], 2, "must be at least 1"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", *arguments]) == code
    assert message in capsys.readouterr().err
