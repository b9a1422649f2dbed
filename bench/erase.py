"""How long `penstock lake erase` takes for 1,000 persons, by how many files have rows of theirs.

Makes a table of records of 100 B, whose key is a person with 100 rows, and erases persons that are all in one file, in
a quarter of the files, and in each file. Each run is in a process of its own, whose peak memory is reported; the table
is verified at the end.

    python bench/erase.py --rows 20000000
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa

from penstock.spark.lake.files import DataFileWriter
from penstock.spark.lake.open import open_table
from penstock.spark.lake.records import RECORD_SCHEMA, TopicPartition

CLICKS = TopicPartition("clicks", UUID(int=1), 0)
ROWS_PER_FILE = 1_000_000
ROWS_PER_PERSON = 100
PERSONS = 1_000
BATCH_ROWS = 100_000


def make(directory: Path, files: int) -> None:
    lake = open_table(str(directory), "bench")
    headers = pa.nulls(BATCH_ROWS, RECORD_SCHEMA.field("headers").type)
    noise = np.random.default_rng(1)
    for start in range(0, files * ROWS_PER_FILE, ROWS_PER_FILE):
        with DataFileWriter(lake.destination(), RECORD_SCHEMA) as writer:
            for first in range(start, start + ROWS_PER_FILE, BATCH_ROWS):
                offsets = np.arange(first, first + BATCH_ROWS, dtype=np.int64)
                persons = pa.array(offsets // ROWS_PER_PERSON).cast(pa.string()).cast(pa.binary())
                values = noise.integers(0, 256, 100 * BATCH_ROWS, dtype=np.uint8).tobytes()
                ends = pa.py_buffer(np.arange(0, 100 * BATCH_ROWS + 1, 100, dtype=np.int32).tobytes())
                columns = [
                    pa.repeat(CLICKS.topic, BATCH_ROWS),
                    pa.repeat(str(CLICKS.topic_id), BATCH_ROWS),
                    pa.repeat(pa.scalar(0, pa.int32()), BATCH_ROWS),
                    pa.array(offsets),
                    pa.array(1_700_000_000_000_000 + offsets * 1000).cast(pa.timestamp("us", "UTC")),
                    pa.repeat(pa.scalar(0, pa.int32()), BATCH_ROWS),
                    persons,
                    pa.Array.from_buffers(pa.binary(), BATCH_ROWS, [None, ends, pa.py_buffer(values)]),
                    headers,
                ]
                writer.write(pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA))
            written = writer.close()
        lake.commit(written, {CLICKS: start}, {CLICKS: start + ROWS_PER_FILE})


def persons_in(files: range) -> list[int]:
    """PERSONS persons, as many in each of some files, and others for another number of files."""
    in_file = ROWS_PER_FILE // ROWS_PER_PERSON
    each = PERSONS // len(files)
    return [file * in_file + len(files) % 9 + 9 * n for file in files for n in range(each)]


def run(*arguments: str) -> tuple[float, float, str]:
    """Runs a command of penstock; seconds, peak memory of children so far in MB, what it printed."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "penstock", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return time.perf_counter() - began, peak_mb, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    files = max(8, parser.parse_args().rows // ROWS_PER_FILE)
    with tempfile.TemporaryDirectory() as temporary:
        table, persons = str(Path(temporary) / "clicks"), Path(temporary) / "persons"
        make(Path(table), files)
        where = ["--where", "decode(key) in (select value from persons)", "--list", f"persons={persons}"]
        print(f"{files} files of {ROWS_PER_FILE:,} rows; {PERSONS:,} persons of {ROWS_PER_PERSON} rows each")
        for name, some in (("none", range(0)), ("1", range(1)), ("a quarter", range(1, 1 + files // 4))):
            report(table, persons, where, name, some)
        report(table, persons, where, "all", range(files))
        seconds, peak_mb, said = run("verify", table)
        print(f"verify: {seconds:.1f} s, peak {peak_mb:.0f} MB: {said.splitlines()[-2].strip()}")


def report(table: str, persons: Path, where: list[str], name: str, files: range) -> None:
    wanted = persons_in(files) if files else [10**12]
    persons.write_text("\n".join(map(str, wanted)))
    seconds, peak_mb, said = run("lake", "erase", table, *where, "--execute")
    print(f"persons in {name} of the files: {seconds:.1f} s, peak {peak_mb:.0f} MB: {said.splitlines()[0][33:]}")


if __name__ == "__main__":
    main()
