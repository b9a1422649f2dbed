"""`penstock lake erase` and `penstock lake erasures`: rows that must go, and the proof that they went.

Without --execute it says how many rows a condition takes, and does nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.common import Actions, add_action, add_flag, add_json, add_option, add_pairs, check_modules, pairs
from penstock.cli.lake_table import LAKE_MODULES, add_table, open_named
from penstock.cli.times import timestamp_text
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.spark.lake.certificates import Certificate


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    erase = add_action(
        actions, "erase", erase_action, "take rows out of a load's table for good: a preview, unless --execute is given"
    ).examples(
        "penstock lake erase lake/clicks --where \"user_id = '4711'\"",
        "penstock lake erase lake/clicks --where \"user_id = '4711'\" --reference 'request 17' --execute",
        "penstock lake erase lake/clicks --list persons=persons.txt \\",
        '    --where "decode(key) in (select value from persons)" --execute',
    )
    add_table(erase)
    erase.add_argument("--where", metavar="SQL", required=True, help="rows to erase: a condition on the columns")
    add_pairs(erase, "--list", "a list for the condition, NAME=FILE with one value per line: a table with column value")
    add_option(erase, "--reference", "TEXT", "text for the certificate, such as the number of a request", default="")
    add_option(
        erase,
        "--deadline-hours",
        "N",
        "when the old files, which still hold the rows, are deleted by `lake maintain` (default: 168, a week)",
        type=float,
        default=168.0,
    )
    add_flag(erase, "--execute", "erase the rows")
    add_json(erase)
    erasures = add_action(actions, "erasures", erasures_action, "list the erasures of a table and what is left of them")
    add_table(erasures)
    add_json(erasures)


def erase_action(arguments: argparse.Namespace) -> int:
    """Erases rows, or counts them."""
    check_modules("a lake table", LAKE_MODULES, "spark")
    check_modules("the condition", ("duckdb",), "sql")
    from penstock.spark.lake.erasure import Erasure

    if arguments.deadline_hours < 0:
        raise UsageError(f"--deadline-hours {arguments.deadline_hours:g}: it cannot be negative")
    erasure = Erasure(
        open_named(arguments, "erase"),
        arguments.where,
        lists={name: values_of(file) for name, file in pairs(arguments.list, "--list").items()},
        reference=arguments.reference,
        deadline_hours=arguments.deadline_hours,
    )
    if arguments.execute:
        certificate = erasure.run()
        print(json.dumps(certificate.to_json(), indent=1) if arguments.json else described(certificate))
        return 0
    rows, files = erasure.count()
    if arguments.json:
        print(json.dumps({"rows": rows, "files": files}))
    else:
        print(f"{rows:,} rows in {files:,} files would be erased; nothing was done: add --execute")
    return 0


def values_of(file: str) -> Any:
    """The lines of a file as an Arrow array of strings. Raises UsageError if it cannot be read."""
    import pyarrow as pa

    try:
        return pa.array(Path(file).read_text("utf-8").splitlines(), pa.string())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--list: {file} cannot be read: {error}") from None


def erasures_action(arguments: argparse.Namespace) -> int:
    """Lists the certificates of a table."""
    lake = open_named(arguments, "erase")
    from penstock.spark.lake.certificates import Certificates

    found = Certificates(lake.destination()).all()
    if arguments.json:
        print(json.dumps([each.to_json() for each in found], indent=1))
    elif not found:
        print("nothing was erased")
    else:
        print("\n".join(described(each) for each in found))
    return 0


def described(certificate: Certificate) -> str:
    """A certificate in a few lines."""
    about = f" ({certificate.reference})" if certificate.reference else ""
    lines = [
        f"{certificate.id}{about}: {certificate.rows:,} rows of {certificate.files_rewritten:,} files erased",
        f"  began {timestamp_text(certificate.began_ms)}, "
        + (
            "was stopped before its end: run it again"
            if certificate.ended_ms is None
            else f"ended {timestamp_text(certificate.ended_ms)}: version {certificate.clean_version} has none"
        ),
    ]
    if certificate.old_files_deleted_ms is not None:
        lines.append(f"  the old files were deleted at {timestamp_text(certificate.old_files_deleted_ms)}")
    elif certificate.old_files:
        late = " (overdue)" if certificate.deadline_ms < time.time() * 1000 else ""
        lines.append(
            f"  {len(certificate.old_files):,} old files have the rows until {timestamp_text(certificate.deadline_ms)}"
            f"{late}; penstock lake maintain deletes them"
        )
    return "\n".join(lines)
