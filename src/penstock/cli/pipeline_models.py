"""The actions of `penstock pipeline` for a file that declares models: test, backfill and docs."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.common import Actions, add_action, add_json, add_option
from penstock.cli.output import GREEN, RED, YELLOW, paint, print_json, print_table
from penstock.cli.pipeline_state import add_state, state_of
from penstock.cli.spark import add_spark_session
from penstock.cli.stopping import Stopping, stopped_by_signals
from penstock.cli.times import timestamp_ms
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.pipelines.declaration import Pipeline
    from penstock.pipelines.models.project import Project
    from penstock.pipelines.models.results import Result
    from penstock.pipelines.models.step import ModelsStep

COLOURS = {"pass": GREEN, "warn": YELLOW, "fail": RED, "error": RED}


def register_models(actions: Actions[argparse.ArgumentParser]) -> None:
    """Adds the actions."""
    test = add_action(actions, "test", test_models, "run the tests of a file's models; 1 if one fails").examples(
        "penstock pipeline test shop.toml", "penstock pipeline test shop.toml --step views --json"
    )
    test.add_argument("file", type=Path, metavar="FILE", help="the pipeline's file")
    test.add_argument(
        "--step", action="append", default=[], metavar="NAME", help="only this source or model; repeatable"
    )
    add_json(test)
    _add_session(test)
    backfill = add_action(
        actions, "backfill", backfill_model, "make a range of time of a model anew, beside the live run"
    ).examples("penstock pipeline backfill shop.toml --step views --from 2026-01-31T08:00Z --to 2026-01-31T12:00Z")
    backfill.add_argument("file", type=Path, metavar="FILE", help="the pipeline's file")
    add_option(backfill, "--step", "NAME", "the model, an incremental one with an event_time", required=True)
    add_option(backfill, "--from", "TIME", "first time that is made anew", required=True, dest="start")
    add_option(backfill, "--to", "TIME", "first time that is not", required=True, dest="end")
    _add_session(backfill)
    docs = add_action(actions, "docs", draw_models, "write a page about a file's models").examples(
        "penstock pipeline docs shop.toml", "penstock pipeline docs shop.toml --output public/shop.html"
    )
    docs.add_argument("file", type=Path, metavar="FILE", help="the pipeline's file")
    add_option(docs, "--output", "FILE", "the page (default: FILE with .html)", type=Path)
    add_state(docs)


def _add_session(parser: argparse.ArgumentParser) -> None:
    add_state(parser)
    parser.add_argument("--master", help="Spark master, such as spark://HOST:PORT (default: local[*])")
    add_spark_session(parser)


def declared(arguments: argparse.Namespace) -> tuple[Pipeline, Project]:
    """The pipeline of the file. Raises ConfigError for a file that is wrong, or has no models."""
    from penstock.pipelines.reading import read_pipeline

    pipeline, problems = read_pipeline(arguments.file, state_of(arguments))
    if pipeline is None:
        raise ConfigError("\n  ".join([f"{len(problems)} wrong, nothing was started", *map(str, problems)]))
    if pipeline.project is None:
        raise ConfigError(f"{arguments.file} has a job and no models: [models.NAME] declares one")
    return pipeline, pipeline.project


def _live(pipeline: Pipeline, project: Project, arguments: argparse.Namespace, stack: ExitStack) -> ModelsStep:
    """What runs the models, in a Spark session that ends with the stack."""
    from penstock.pipelines.models.step import ModelsStep
    from penstock.pipelines.monitor import Monitor
    from penstock.pipelines.runner import Running, epoch_ms
    from penstock.spark.session import check_addresses, end, session

    check_addresses(arguments.master, None)
    stop: Stopping = stack.enter_context(stopped_by_signals())
    spark = session(
        f"penstock {pipeline.name}", master=arguments.master, settings=pipeline.spark, log=arguments.spark_log
    )
    stack.callback(end, spark)
    monitor = Monitor(pipeline.name, pipeline.job_name, 0, epoch_ms())
    return ModelsStep(Running(pipeline, monitor, stop, said=print).context(spark), project)


def test_models(arguments: argparse.Namespace) -> int:
    from penstock.config.nearest import did_you_mean
    from penstock.pipelines.models.results import BAD

    pipeline, project = declared(arguments)
    known = [node.name for node in project.nodes()]
    for name in arguments.step:
        if name not in known:
            raise ConfigError(f"there is no source or model {name}{did_you_mean(name, known)}")
    with ExitStack() as stack:
        results = _live(pipeline, project, arguments, stack).test(arguments.step)
    if results is None:
        print("stopped before the tests", file=sys.stderr)
        return 1
    if arguments.json:
        print_json([as_json(each) for each in results])
    else:
        show(results)
    return 1 if any(each.status in BAD for each in results) else 0


def as_json(result: Result) -> dict[str, object]:
    from dataclasses import asdict

    return {**asdict(result), "time": result.time.isoformat()}


def show(results: list[Result]) -> None:
    """Prints results, and samples of what failed."""
    if not results:
        print("no tests are declared")
        return
    head = ("step", "test", "status", "failures", "seconds", "")
    rows = [
        (each.step, each.test, paint(each.status, COLOURS[each.status]), f"{each.failures:,}", f"{each.seconds:.1f}",
         each.message)
        for each in results
    ]  # fmt: skip
    print_table(head, rows, ("failures", "seconds"))
    for each in results:
        if each.sample:
            print(f"{each.step} {each.test}, for example: {each.sample}")


def backfill_model(arguments: argparse.Namespace) -> int:
    from penstock.pipelines.models.backfill import Backfill, backfilled

    pipeline, project = declared(arguments)
    start, end = moment_of(arguments.start, "--from"), moment_of(arguments.end, "--to")
    model = backfilled(project, arguments.step, start, end)
    with ExitStack() as stack:
        live = _live(pipeline, project, arguments, stack)
        whole = Backfill(live, model, live.context.stop, print).run(start, end)
    if not whole:
        print("stopped; the same command begins it again")
        return 1
    if readers := [
        name for name in project.downstream(model.name) if project.models[name].materialized == "incremental"
    ]:
        print(f"read what was there before, and may need a backfill too: {', '.join(readers)}")
    return 0


def moment_of(text: str, option: str) -> datetime:
    """A time as it is typed. Raises UsageError."""
    return datetime.fromtimestamp(timestamp_ms(text, option) / 1000, UTC)


def draw_models(arguments: argparse.Namespace) -> int:
    from penstock.pipelines.models.columns import columns_of
    from penstock.pipelines.models.page import page_of
    from penstock.pipelines.models.results import last_results

    pipeline, project = declared(arguments)
    results = last_results(project.results, pipeline.name, project.storage_options)
    page: Path = arguments.output or arguments.file.with_suffix(".html")
    page.write_text(page_of(project, pipeline.name, results, columns_of(project)), encoding="utf-8")
    print(f"wrote {page}")
    return 0
