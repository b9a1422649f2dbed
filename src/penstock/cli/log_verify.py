"""`penstock log verify`: whether the logs in partition or log directories are sound."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.cli.common import Actions, add_action, add_json
from penstock.cli.log_progress import Progress, bytes_below
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.log.verification.findings import Findings
    from penstock.log.verification.partition import Beside, PartitionReport


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    verify = add_action(
        actions, "verify", verify_action, "check that logs are sound: every batch, index and checkpoint"
    ).examples(
        "penstock log verify data                            every log of a log directory, and its checkpoints",
        "penstock log verify data/clicks-0 data/clicks-1 --json",
        "penstock log verify data --notes                    also what is odd and does no harm",
    )
    verify.add_argument("directories", nargs="+", metavar="DIR", help="a log directory, or one partition's")
    verify.add_argument("--notes", action="store_true", help="print notes of sound logs too: files that work has left")
    add_json(verify)


@dataclass(frozen=True)
class Checked:
    """The outcome for one directory. `log` is None for what a log directory has beside its logs."""

    path: str
    findings: Findings
    log: PartitionReport | None = None

    @property
    def verdict(self) -> str:
        from penstock.log.verification.findings import Severity

        if self.findings.problems:
            return "damaged"
        return "not judged in part" if self.findings.counts[Severity.UNJUDGED] else "sound"


def verify_action(arguments: argparse.Namespace) -> int:
    """Prints what was found in each directory; 1 if something is wrong in one."""
    from penstock.cli.output import print_json

    places = [(directory, kind_of(directory)) for directory in arguments.directories]
    progress = Progress(arguments.directories)
    checked = []
    for directory, is_log_directory in places:
        for each in checks_of(directory, is_log_directory, progress):
            progress.clear()
            checked.append(each)
            if not arguments.json:
                print_checked(each, notes=arguments.notes)
    if arguments.json:
        print_json([as_json(each) for each in checked])
    elif len(checked) > 1:
        print_sum(checked)
    return 1 if any(each.findings.problems for each in checked) else 0


def kind_of(directory: str) -> bool:
    """Whether a directory is a log directory; False for a partition's. Raises UsageError for any other."""
    from penstock.log.verification.directory_check import is_log_directory, is_partition
    from penstock.server.disk import BlockingDisk

    if not os.path.isdir(directory):
        raise UsageError(f"{directory}: there is no such directory")
    disk = BlockingDisk(0, directory, writable=False)
    try:
        if is_log_directory(disk):
            return True
        if is_partition(disk):
            return False
    finally:
        disk.close()
    raise UsageError(f"{directory} is neither a log directory nor a partition's: it has no checkpoints and no segments")


def checks_of(directory: str, is_log_directory: bool, progress: Progress) -> Iterator[Checked]:
    """Checks a directory: of a log directory first its own files, then each log."""
    from penstock.log.verification.directory_check import check_directory, state_of
    from penstock.log.verification.findings import Findings
    from penstock.server.directory_lock import holder_of
    from penstock.server.disk import BlockingDisk

    parent, name = (directory, "") if is_log_directory else os.path.split(os.path.realpath(directory))
    is_written = holder_of(parent) is not None
    disk = BlockingDisk(0, parent, writable=False)
    try:
        if is_log_directory:
            own = check_directory(disk, is_written=is_written)
            yield Checked(directory, own.findings)
            logs = own.logs
        else:
            logs = [(name, state_of(disk, Findings(), is_written=is_written).beside(name))]
        for log, beside in logs:
            path = os.path.join(directory, log) if is_log_directory else directory
            checked = checked_log(disk, path, log, beside, progress)
            if checked.findings.problems and not is_written and holder_of(parent) is not None:  # a broker has started
                used = replace(beside, is_written=True, was_stopped_cleanly=False)
                checked = checked_log(disk, path, log, used, progress)
            yield checked
    finally:
        disk.close()


def checked_log(disk: Any, path: str, name: str, beside: Beside, progress: Progress) -> Checked:
    """Checks one log, which may not be readable, or go meanwhile."""
    from penstock.log.verification.findings import Findings
    from penstock.log.verification.inspection import unreadable
    from penstock.log.verification.partition import check_partition
    from penstock.log.verification.walks import walk_for

    findings = Findings()
    try:
        walk = walk_for(bytes_below(os.path.join(disk.path, name)))
        report = check_partition(disk, name, beside, walk, progress.of(path))
    except FileNotFoundError:
        findings.unjudged("", "it was removed while it was looked at")
    except OSError as error:
        findings.problem("", unreadable(error))
    else:
        return Checked(path, report.findings, report)
    return Checked(path, findings)


def print_checked(checked: Checked, *, notes: bool) -> None:
    """A line with the verdict, and one for each finding."""
    from penstock.cli.output import GREEN, RED, YELLOW, counted, paint, printable
    from penstock.log.verification.findings import Severity

    colours = {"damaged": RED, "sound": GREEN}
    problems = checked.findings.problems
    verdict = counted(problems, "problem") if problems else checked.verdict
    print(f"{printable(checked.path)}: {paint(verdict, colours.get(checked.verdict, YELLOW))}{figures(checked.log)}")
    for each in checked.findings.listed:
        if each.severity is Severity.NOTE and not notes and not problems:
            continue
        where = " ".join(part for part in (each.file, each.place) if part)
        kind = paint("PROBLEM", RED) if each.severity is Severity.PROBLEM else each.severity.value
        print(f"  {kind}: " + printable((f"{where}: " if where else "") + each.message))
    for severity, count in checked.findings.counts.items():
        listed = sum(each.severity is severity for each in checked.findings.listed)
        if count > listed:
            print(f"  and {count - listed:,} more of the kind: {severity.value}")


def figures(log: PartitionReport | None) -> str:
    """What was looked at in a log."""
    from penstock.cli.output import counted, size_text

    if log is None:
        return ""
    offsets = f"offsets {log.start_offset} to {log.end_offset}" if log.segments else "empty"
    batches = f"{log.batches:,} batch" + ("" if log.batches == 1 else "es")
    old = f", {counted(log.old_messages, 'message')} of an old format" if log.old_messages else ""
    sizes = f"{counted(log.segments, 'segment')}, {size_text(log.bytes)}"
    return f"; {offsets}, {counted(log.records, 'record')} in {batches}{old}, {sizes}"


def print_sum(checked: list[Checked]) -> None:
    from penstock.cli.output import counted

    logs = [each for each in checked if each.log is not None]
    damaged = sum(each.verdict == "damaged" for each in checked)
    outcome = f"{damaged} of them with problems" if damaged else "no problems"
    print(f"{counted(len(logs), 'log')} checked, {outcome}")


def as_json(checked: Checked) -> dict[str, Any]:
    from penstock.cli.output import printable

    counts = {severity.value.replace(" ", "_"): count for severity, count in checked.findings.counts.items()}
    found = [
        {
            "severity": each.severity.value,
            "file": printable(each.file),
            "place": each.place,
            "message": printable(each.message),
        }
        for each in checked.findings.listed
    ]
    line: dict[str, Any] = {
        "directory": printable(checked.path),
        "verdict": checked.verdict,
        "counts": counts,
        "findings": found,
    }
    if checked.log is not None:
        figures_of = asdict(checked.log)
        line |= {name: value for name, value in figures_of.items() if name not in ("name", "findings")}
    return line
