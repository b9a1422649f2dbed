"""A pipeline's file: what is right is read, and everything that is wrong is told at once, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.cli.main import main
from penstock.errors import ConfigError
from penstock.pipelines.declaration import Pipeline, Restart
from penstock.pipelines.job import REQUIRED, Job, Option
from penstock.pipelines.jobs import load
from penstock.pipelines.reading import read_pipeline, read_pipelines
from penstock.pipelines.registry import BUILT_IN, find_job
from penstock.pipelines.template import assignment, template
from penstock.spark.limits import LOAD_OFFSETS_PER_JOB
from penstock.spark.load.options import LoadOptions

GOOD = """
[pipeline]
name = "clicks"
job = "load"
[kafka]
bootstrap = "h:1"
isolation.level = "read_uncommitted"
[options]
topics = ["clicks", "views"]
table = "lake/clicks"
[options.storage_options]
AWS_REGION = "eu"
[spark]
spark.sql.shuffle.partitions = 7
spark.ui.enabled = true
[restart]
attempts = 2
"""


def write(directory: Path, text: str, name: str = "p.toml") -> Path:
    file = directory / name
    file.write_text(text)
    return file


def problems(directory: Path, text: str) -> list[str]:
    pipeline, wrong = read_pipeline(write(directory, text), directory)
    assert (pipeline is None) == bool(wrong)
    return [f"{each.line}: {each.text}" for each in wrong]


def right(directory: Path, text: str) -> Pipeline:
    pipeline, wrong = read_pipeline(write(directory, text), directory)
    assert pipeline is not None, wrong
    return pipeline


def test_a_file_becomes_a_pipeline(tmp_path: Path) -> None:
    pipeline = right(tmp_path, GOOD)
    assert (pipeline.name, pipeline.job_name, pipeline.bootstrap) == ("clicks", "load", "h:1")
    assert pipeline.kafka == {"kafka.isolation.level": "read_uncommitted"}
    assert pipeline.spark == {"spark.sql.shuffle.partitions": "7", "spark.ui.enabled": "true"}
    assert pipeline.options["table"] == str(tmp_path / "lake/clicks")  # as from the file, wherever it is run from
    assert pipeline.options["offsets_per_job"] == LOAD_OFFSETS_PER_JOB
    assert pipeline.options["storage_options"] == {"AWS_REGION": "eu"}
    assert pipeline.restart == Restart(attempts=2)
    assert pipeline.directory == tmp_path / "clicks"


def test_everything_that_is_wrong_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = """
[pipeline]
job = "laod"
interval_ms = "fast"
[kafak]
x = 1
[kafka]
isolation.level = "dirty"
[restart]
atempts = 2
[spark]
spark.master = "local"
shuffle = 1
[dead_letters]
topic = "a"
table = "b"
"""
    assert problems(tmp_path, text) == [
        "3: there is no job laod; did you mean load? "
        "(built in: load, activity, security, operations, reports, mirror, audit; or file.py:function)",
        '4: interval_ms is "fast", it must be a whole number',
        "5: unknown section [kafak]; did you mean kafka?; "
        "there are pipeline, kafka, options, spark, restart, dead_letters, sources, models, lake, alarm",
        '8: isolation.level is "dirty", it must be one of read_uncommitted, read_committed',
        "10: unknown option atempts; did you mean attempts?; "
        "there are attempts, backoff_ms, backoff_max_ms, healthy_after_ms",
        "12: spark.master cannot be set here: --master does",
        "13: unknown setting shuffle: Spark's own begin with spark.",
        "14: [dead_letters] has a topic and a table: name one of them",
    ]


def test_a_load_says_what_of_its_options_does_not_go_together(tmp_path: Path) -> None:
    head = '[pipeline]\njob = "load"\n[options]\n'
    assert problems(tmp_path, head) == ["3: either table or [[options.tables]] says where the records go"]
    assert "avro needs schema_registry" in problems(tmp_path, head + 'table="t"\ntopics=["a"]\nformat = "avro"')[0]
    wrong = problems(tmp_path, head + 'table="t"\ntopics=["a"]\nstarting = "soon"')
    assert wrong == ["6: starting is 'soon': it must be earliest, latest or a time like 2026-01-31T08:00Z"]
    nested = problems(tmp_path, head + '[[options.tables]]\ntable="t"\n[[options.tables]]\ntabel="t"')
    assert nested[0].startswith("7: unknown option tabel; did you mean table?")


def test_a_load_may_feed_several_tables(tmp_path: Path) -> None:
    tables = '[[options.tables]]\ntopics=["a"]\ntable="a"\n[[options.tables]]\ntopics=["b"]\ntable="b"\nformat="json"'
    pipeline = right(tmp_path, f'[pipeline]\njob = "load"\n[options]\nskip_corrupt = true\n{tables}')
    loads = load.loads_of(pipeline.options, "p", "h:1")
    assert [(each.topics, each.format, each.skip_corrupt) for each in loads] == [
        (["a"], "raw", True),
        (["b"], "json", True),
    ]


def test_a_declared_load_runs_on_spark_unless_told_otherwise(tmp_path: Path) -> None:
    text = '[pipeline]\njob = "load"\n[options]\ntopics = ["a"]\ntable = "a"\n'
    for told, expected in (("", 0), ("inline_offsets = 20_000", 20_000)):
        (options,) = load.loads_of(right(tmp_path, text + told).options, "p", "h:1")
        assert options.inline_offsets == expected


def test_every_option_of_a_load_can_be_declared() -> None:
    elsewhere = {
        "bootstrap",
        "pipeline",
        "isolation",
        "timeout_ms",
        "client_id",
        "security",
    }  # in [kafka] and [pipeline]
    one_off = {"from_ms", "until_ms"}
    declared = {option.name for option in (*load.TABLE_OPTIONS, *load.SHARED_OPTIONS)}
    assert declared == set(LoadOptions.__slots__) - elsewhere - one_off


def test_pipelines_of_one_run_must_agree_on_the_session_and_differ_in_name(tmp_path: Path) -> None:
    text = '[pipeline]\nname = "a"\njob = "load"\n[options]\ntopics = ["x"]\ntable = "t"\n[spark]\nspark.x = '
    files = [write(tmp_path, f"{text}{value}", f"{value}.toml") for value in (1, 2)]
    told = [problem.text for problem in read_pipelines(files, tmp_path)[1]]
    assert told == [
        f"name is a, as that of {files[0]}",
        f"[spark] spark.x is 2, in {files[0]} it is 1; pipelines of one run share a session",
    ]


@pytest.mark.parametrize("job", BUILT_IN)
def test_the_file_that_init_writes_is_valid(tmp_path: Path, job: str) -> None:
    pipeline = right(tmp_path, template(job, find_job(job)))
    assert pipeline.job_name == job


@pytest.mark.parametrize("job", BUILT_IN)
def test_the_defaults_that_init_shows_are_the_defaults(tmp_path: Path, job: str) -> None:
    lines = template(job, find_job(job)).splitlines()
    for option in find_job(job).options:
        if option.default is not None and not option.required and not option.fields and option.example is None:
            assert f"# {assignment(option)}" in lines


def test_a_job_is_found_in_a_file_beside_the_pipeline(tmp_path: Path) -> None:
    write(tmp_path, "def run(context):\n    return []\n", "mine.py")
    pipeline = right(tmp_path, '[pipeline]\njob = "mine.py:run"\n[options]\nany = 1\n')
    assert pipeline.options == {"any": 1}
    with pytest.raises(ConfigError, match=r"mine\.py has no runn; did you mean run\?"):
        find_job("mine.py:runn", tmp_path)
    write(tmp_path, "import nowhere_at_all\n", "broken.py")
    with pytest.raises(ConfigError, match=r"broken\.py does not import: ModuleNotFoundError"):
        find_job("broken.py:run", tmp_path)
    with pytest.raises(ConfigError, match="there is no module nowhere_at_all"):
        find_job("nowhere_at_all:run")


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        (Option("n", int, REQUIRED, ""), True, "is true, it must be a whole number"),
        (Option("n", int, 1, "", at_least=1, at_most=9), 0, "is 0, it must be at least 1"),
        (Option("n", int, 1, "", at_least=1, at_most=9), 10, "is 10, it must be at most 9"),
        (Option("n", float, 1.0, ""), 2, None),
        (Option("n", list, None, ""), ["a", ""], "is ['a', ''], it must be a list of texts, none of them empty"),
        (Option("n", str, "a", "", choices=("a", "b")), "c", 'is "c", it must be one of a, b'),
    ],
)
def test_an_option_says_what_it_may_be(option: Option, value: object, problem: str | None) -> None:
    assert option.problem(value) == problem


def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path) -> None:
    assert problems(tmp_path, "[pipeline]\njob = \n")[0].startswith("2: this is no TOML: ")


def test_validate_tells_all_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = [write(tmp_path, "[pipeline]\n", f"{n}.toml") for n in "ab"]
    assert main(["pipeline", "validate", *map(str, bad)]) == 1
    assert capsys.readouterr().out.count("job is missing") == 2
    assert main(["pipeline", "validate", str(write(tmp_path, GOOD))]) == 0


def test_the_summary_of_a_job_is_its_first_sentence() -> None:
    assert Job(lambda _: None, doc="Does a thing.\n  And more.").summary == "Does a thing"


JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required username='alice' password='s3cret-canary';"


@pytest.mark.parametrize("where", ["file", "section"])
def test_a_secured_cluster_is_named_in_the_file_or_by_a_file_of_client_properties(where: str, tmp_path: Path) -> None:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}
    kafka = 'command_config = "client.properties"'
    if where == "section":
        kafka = "\n".join(f'{name} = "{text}"' for name, text in given.items())
    (tmp_path / "client.properties").write_text("".join(f"{name}={text}\n" for name, text in given.items()))
    file = tmp_path / "clicks.toml"
    file.write_text(GOOD.replace('bootstrap = "h:1"', f'bootstrap = "h:1"\n{kafka}'))
    pipeline, problems = read_pipeline(file, tmp_path / "state")
    assert problems == []
    assert pipeline is not None
    assert pipeline.security.login is not None
    assert pipeline.kafka["kafka.sasl.jaas.config"] == JAAS
    assert pipeline.kafka["kafka.isolation.level"] == "read_uncommitted"
    assert "s3cret-canary" not in repr(pipeline)


def test_misspelt_names_in_files_of_client_properties_are_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that is no client property at all may be meant for another program."""
    (tmp_path / "own.properties").write_text("ssl.trustore.location=/x\nacks=all\n")
    (tmp_path / "other.properties").write_text("sasl.jas.config=s3cret-canary\n")
    text = """
[pipeline]
job = "mirror"
[kafka]
bootstrap = "h:1"
command_config = "own.properties"
[options]
topics = ["clicks"]
to = "h:2"
to_command_config = "other.properties"
"""
    file = write(tmp_path, text)
    assert main(["pipeline", "validate", str(file)]) == 0
    told = capsys.readouterr().err
    assert [line.partition(f"{file}: ")[2] for line in told.splitlines()] == [
        "[kafka] command_config: ssl.trustore.location is not a client property; did you mean ssl.truststore.location?",
        "[options] to_command_config: sasl.jas.config is not a client property; did you mean sasl.jaas.config?",
    ]
    assert "s3cret-canary" not in told


def test_what_is_wrong_about_security_is_told_with_its_line_and_without_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "clicks.toml"
    wrong = 'security.protocol = "SASL_SSL"\nsasl.mechanism = "PLAIN"\nsasl.jaas.config = "s3cret-canary"'
    file.write_text(GOOD.replace('bootstrap = "h:1"', wrong))
    _, problems = read_pipeline(file, tmp_path / "state")
    assert [str(each) for each in problems] == [
        f"{file}:8: sasl.jaas.config is not a JAAS configuration: after the login module must come required, "
        "requisite, sufficient or optional"
    ]
