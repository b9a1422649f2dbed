"""Pipelines on Spark, declared in small TOML files.

examples:
  penstock pipeline list                               the jobs there are, and the pipelines that run
  penstock pipeline init load clicks.toml              a file to fill in
  penstock pipeline validate *.toml                    everything that is wrong with them, at once
  penstock pipeline run clicks.toml alerts.toml        both in one Spark session, until Ctrl-C
  penstock pipeline status                             their figures, from another terminal
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.common import Actions, add_action, add_actions, add_flag, add_json, add_option, run_action, warn
from penstock.cli.output import GREEN, RED, YELLOW, paint, print_json, print_table
from penstock.cli.pipeline_audit import register_audit
from penstock.cli.pipeline_models import register_models
from penstock.cli.pipeline_state import add_state, state_of
from penstock.cli.progress import Lines
from penstock.cli.spark import add_spark_session
from penstock.cli.stopping import Stopping, stopped_by_signals
from penstock.errors import ConfigError, PenstockError, UsageError
from penstock.pipelines.limits import PIPELINE_STATUS_MS, PIPELINES_PER_RUN

if TYPE_CHECKING:
    from penstock.pipelines.declaration import Pipeline, Problem
    from penstock.pipelines.monitor import Report
    from penstock.pipelines.runner import Fleet, Running
    from penstock.pipelines.state import Known

SUMMARY = "run declared pipelines on Spark"
COLOURS = {"running": GREEN, "done": GREEN, "waiting": YELLOW, "failed": RED, "dead": RED}

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    _register_files(actions)
    _register_run(actions)
    register_models(actions)
    register_audit(actions)
    status = add_action(
        actions, "status", show_status, "show figures of running pipelines, or the last known ones"
    ).examples("penstock pipeline status", "penstock pipeline status clicks.toml --json")
    status.add_argument("of", nargs="?", metavar="DIR|FILE", help="a state directory, or one pipeline's file")
    add_json(status)
    listed = add_action(actions, "list", show_list, "list built-in jobs and running pipelines")
    add_state(listed)
    add_json(listed)


def _register_files(actions: Actions[argparse.ArgumentParser]) -> None:
    init = add_action(actions, "init", write_template, "write a commented template for a job").examples(
        "penstock pipeline init activity", "penstock pipeline init load clicks.toml"
    )
    init.add_argument("job", metavar="JOB", help="a built-in job, module:function, or file.py:function")
    init.add_argument("file", nargs="?", type=Path, metavar="FILE", help="file to write (default: stdout)")
    add_option(init, "--bootstrap", "HOST:PORT", "brokers to write into the file (default: $PENSTOCK_BOOTSTRAP)")
    add_flag(init, "--force", "replace an existing file")
    validate = add_action(actions, "validate", check_files, "report everything that is wrong with files").examples(
        "penstock pipeline validate clicks.toml alerts.toml", "penstock pipeline validate *.toml --connect"
    )
    validate.add_argument("files", nargs="+", type=Path, metavar="FILE", help="pipeline files")
    add_flag(validate, "--connect", "also check with the brokers that the topics exist")


def _register_run(actions: Actions[argparse.ArgumentParser]) -> None:
    parser = add_action(actions, "run", run_files, "run pipelines in one Spark session").examples(
        "penstock pipeline run clicks.toml alerts.toml", "penstock pipeline run clicks.toml --once"
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="pipeline files")
    add_flag(parser, "--once", "stop when all have caught up")
    add_flag(parser, "--fail-fast", "stop all when one fails for good")
    add_option(parser, "--metrics-port", "PORT", "port for /metrics and /healthz (default: none)", type=int, default=0)
    add_option(parser, "--metrics-host", "HOST", "address for --metrics-port", default="127.0.0.1")
    add_state(parser)
    parser.add_argument("--master", help="Spark master, such as spark://HOST:PORT (default: local[*])")
    add_option(parser, "--remote", "sc://HOST:PORT", "Spark Connect server to use instead")
    add_spark_session(parser)


def write_template(arguments: argparse.Namespace) -> int:
    from penstock.pipelines.registry import find_job
    from penstock.pipelines.template import template

    beside = arguments.file.parent if arguments.file else Path()
    bootstrap = arguments.bootstrap or os.environ.get("PENSTOCK_BOOTSTRAP")
    text = template(arguments.job, find_job(arguments.job, beside), bootstrap)
    if arguments.file in (None, Path("-")):
        print(text, end="")
        return 0
    try:
        with arguments.file.open("w" if arguments.force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{arguments.file} is there already; --force replaces it") from None
    print(f"wrote {arguments.file}; fill it in, then: penstock pipeline validate {arguments.file}")
    return 0


def check_files(arguments: argparse.Namespace) -> int:
    pipelines, problems = read(arguments)
    if arguments.connect:
        from penstock.pipelines.reach import unreachable

        problems = problems + unreachable(pipelines)
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}", file=sys.stderr)
        return 1
    for pipeline in pipelines:
        print(f"{pipeline.file}: {pipeline.name}, {what_of(pipeline)}: valid")
    return 0


def what_of(pipeline: Pipeline) -> str:
    """A pipeline's job, or how many models it has."""
    if pipeline.project is None:
        return f"job {pipeline.job_name}"
    return f"{len(pipeline.project.sources)} sources, {len(pipeline.project.models)} models"


def read(arguments: argparse.Namespace) -> tuple[list[Pipeline], list[Problem]]:
    """The pipelines of the files, and what is wrong with them. Warns of misspelt names in client properties."""
    from penstock.pipelines.reading import read_pipelines

    pipelines, problems = read_pipelines(arguments.files, state_of(arguments))
    for each in pipelines:
        for warning in misspelt(each):
            warn(f"{each.file}: {warning}")
    return pipelines, problems


def misspelt(pipeline: Pipeline) -> Iterator[str]:
    """Names in the files of client properties that a pipeline names, which no client has: of its own cluster and of
    others, in its options.
    """
    from penstock.client.property_files import client_properties
    from penstock.client.security import NAMES
    from penstock.config.nearest import did_you_mean

    for name in pipeline.security.unknown:
        yield f"[kafka] command_config: {name} is not a client property{did_you_mean(name, NAMES)}"
    for option, path in files_in(pipeline.options):
        for name in client_properties(path)[1].unknown:
            yield f"[options] {option}: {name} is not a client property{did_you_mean(name, NAMES)}"


def files_in(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The options that name files of client properties, of the job or of parts of it."""
    for name, value in options.items():
        if name.endswith("command_config") and isinstance(value, str):
            yield name, value
        for each in value if isinstance(value, list) else ():
            if isinstance(each, Mapping):
                yield from files_in(each)


def run_files(arguments: argparse.Namespace) -> int:
    from penstock.spark.session import check_addresses, explain

    if arguments.explain:
        print(explain())
        return 0
    if not arguments.files:
        raise UsageError("name the pipeline files: penstock pipeline run FILE...")
    if len(arguments.files) > PIPELINES_PER_RUN:
        raise UsageError(f"{len(arguments.files)} pipelines: one run takes at most {PIPELINES_PER_RUN}")
    check_addresses(arguments.master, arguments.remote)
    pipelines, problems = read(arguments)
    if problems:
        raise ConfigError("\n  ".join([f"{len(problems)} wrong, nothing was started", *map(str, problems)]))
    from penstock.pipelines.state import Lock

    with ExitStack() as stack:
        for pipeline in pipelines:
            stack.enter_context(Lock(pipeline.directory, pipeline.name))
        stop = stack.enter_context(stopped_by_signals())
        return run_pipelines(pipelines, arguments, stop)


def run_pipelines(pipelines: list[Pipeline], arguments: argparse.Namespace, stop: Stopping) -> int:
    """Starts Spark and the pipelines, and shows how they do until they end."""
    from penstock.pipelines.metrics import MetricsThread
    from penstock.pipelines.monitor import Monitor
    from penstock.pipelines.runner import Fleet, Running, epoch_ms
    from penstock.spark.session import end, session

    show = Lines()
    monitors = [Monitor(each.name, each.job_name, os.getpid(), epoch_ms()) for each in pipelines]
    paired = zip(pipelines, monitors, strict=True)
    told = Told(show)
    running = [Running(pipeline, monitor, stop, arguments.once, told) for pipeline, monitor in paired]
    fleet = Fleet(running, stop, fail_fast=arguments.fail_fast)
    with ExitStack() as stack:
        if arguments.metrics_port:
            at = f"{arguments.metrics_host}:{arguments.metrics_port}"
            served = stack.enter_context(MetricsThread(at, monitors, epoch_ms))
            show.say(f"metrics at http://{served.address}/metrics")
        settings = {name: value for each in pipelines for name, value in each.spark.items()}
        name = f"penstock {' '.join(each.name for each in pipelines)}"
        spark = session(
            name, master=arguments.master, remote=arguments.remote, settings=settings, log=arguments.spark_log
        )
        stack.callback(end, spark)
        show.say(f"Spark {spark.version} at {arguments.remote or arguments.master or 'local[*]'}; Ctrl-C stops")
        try:
            fleet.start(spark)
            watch(fleet, show, told, stop)
        finally:
            stop.set()
            good = fleet.join()
            report(running, show, told, last=True)
    return 0 if good else 1


class Told:
    """Messages from the pipelines' threads, kept until the main thread prints them."""

    def __init__(self, show: Lines) -> None:
        self._show = show
        self._lock = threading.Lock()
        self._texts: list[str] = []

    def __call__(self, text: str) -> None:
        with self._lock:
            self._texts.append(text)

    def say(self) -> None:
        """Prints everything collected so far."""
        with self._lock:
            texts, self._texts = self._texts, []
        for text in texts:
            self._show.say(text)


def watch(fleet: Fleet, show: Lines, told: Told, stop: Stopping) -> None:
    """Shows and records the pipelines' progress, until all have ended or are told to stop."""
    while fleet.working():
        report(fleet.running, show, told)
        if stop.wait(PIPELINE_STATUS_MS / 1000) or stop.is_set():
            show.say("stopping after the current jobs")
            return


def report(running: Sequence[Running], show: Lines, told: Told, *, last: bool = False) -> None:
    """One report of each pipeline, to its status file and to the terminal."""
    from penstock.pipelines.runner import epoch_ms
    from penstock.pipelines.state import write_status

    told.say()
    reports = [(each.pipeline, each.monitor.report(epoch_ms())) for each in running]
    for pipeline, each in reports:
        write_status(pipeline.directory, each)
    width = max(len(each.name) for _, each in reports)
    show.show([line_of(each, width) for _, each in reports], last=last)


def line_of(report: Report, width: int) -> str:
    lag = f"lag {report.lag:,}" if report.lag >= 0 else "lag -"
    restarts = f"  {report.restarts} restarts" if report.restarts else ""
    return (
        f"{report.name:{width}}  {report.state:8}  {report.rows:,} rows  {report.rows_per_s:,.0f} rows/s  "
        f"{lag}  batch {report.batch_ms:,.0f} ms{restarts}"
    )


def show_status(arguments: argparse.Namespace) -> int:
    known = known_of(arguments)
    if arguments.json:
        print_json([{**each.report.as_json(), "state": state_text(each), "live": each.live} for each in known])
        return 0
    if not known:
        print("no pipeline has run here; `penstock pipeline run FILE` runs one")
        return 0
    show_table(known)
    for each in known:
        if each.report.error:
            print(f"{each.report.name}, {ago(each.report.error_ms)}: {each.report.error}")
    return 0


def show_table(known: list[Known]) -> None:
    """Prints a table of pipelines and their figures."""
    head = ("pipeline", "job", "state", "rows", "rows/s", "lag", "batch", "last batch", "restarts", "process")
    right = ("rows", "rows/s", "lag", "batch", "restarts", "process")
    rows = []
    for each in known:
        told, state = each.report, state_text(each)
        rows.append(
            (
                *(told.name, told.job, paint(state, COLOURS.get(state, "0")) if COLOURS.get(state) else state),
                *(f"{told.rows:,}", f"{told.rows_per_s:,.0f}" if each.live else "-"),
                *(f"{told.lag:,}" if told.lag >= 0 else "-", f"{told.batch_ms:,.0f} ms", ago(told.last_batch_ms)),
                *(str(told.restarts), str(told.pid) if each.live else "-"),
            )
        )
    print_table(head, rows, right)


def state_text(known: Known) -> str:
    """The state now: a pipeline whose process ended without reporting that is dead."""
    from penstock.pipelines.monitor import ENDED

    return known.report.state if known.live or known.report.state in ENDED else "dead"


def ago(at_ms: int) -> str:
    """How long ago, roughly."""
    from penstock.pipelines.runner import epoch_ms

    if not at_ms:
        return "never"
    seconds = max(0, epoch_ms() - at_ms) // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def known_of(arguments: argparse.Namespace) -> list[Known]:
    """Of the pipeline of a file, or of all below a state directory. Raises PenstockError for a file that is wrong."""
    from penstock.pipelines.reading import read_pipeline
    from penstock.pipelines.state import all_known, read_status, state_directory

    of = Path(arguments.of) if arguments.of else state_directory()
    if not of.is_file():
        if arguments.of and not of.is_dir():
            raise PenstockError(f"there is no directory or file {of}")
        return all_known(of)
    pipeline, problems = read_pipeline(of, state_directory())
    if pipeline is None:
        raise ConfigError("\n  ".join(map(str, problems)))
    known = read_status(pipeline.directory)
    return [] if known is None else [known]


def show_list(arguments: argparse.Namespace) -> int:
    from penstock.pipelines.registry import BUILT_IN, find_job
    from penstock.pipelines.state import all_known

    jobs = {name: find_job(name).summary for name in BUILT_IN}
    live = [known for known in all_known(state_of(arguments)) if known.live]
    if arguments.json:
        print_json({"jobs": jobs, "running": [known.report.as_json() for known in live]})
        return 0
    print_table(("job", "what it does"), jobs.items())
    print("\nno pipeline runs" if not live else "")
    if live:
        show_table(live)
    return 0
