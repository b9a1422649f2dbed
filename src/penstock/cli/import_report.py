"""What `penstock import` says at its end: counts, bytes, checksums, and what was damaged."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from penstock.cli.output import RED, counted, paint, print_json, printable, size_text
from penstock.records.compression import Codec

if TYPE_CHECKING:
    from penstock.cli.import_job import Job, Part

HOLES_PRINTED_MAX = 20


def print_report(arguments: argparse.Namespace, job: Job) -> int:
    """Prints it; returns the exit code: 1 if something was damaged, or the topic is not what was read."""
    if arguments.json:
        print_json([part_json(part) for part in job.parts])
    else:
        for part in job.parts:
            print_part(part)
        if len(job.parts) > 1:
            records = sum(part.result.report.records for part in job.parts)
            data_bytes = sum(part.result.checksum.data_bytes for part in job.parts)
            print(f"{counted(len(job.parts), 'partition')}: {counted(records, 'record')}, {size_text(data_bytes)}")
    clean = all(part.result.report.is_clean and part.verified is not False for part in job.parts)
    return 0 if clean else 1


def part_json(part: Part) -> dict[str, Any]:
    result, report = part.result, part.result.report
    found = None if part.work is None else part.work.found
    return {
        "partition": part.name,
        "from": part.log.directory,
        "kafka": "0.7" if part.log.is_kafka07 else "0.8 to 0.10",
        "files": len(part.log.segments),
        "file_bytes": part.log.size_bytes,
        "messages": report.messages,
        "records": report.records,
        "there_before": found,
        "data_bytes": result.checksum.data_bytes,
        "checksum": result.checksum.text(),
        "verified": part.verified,
        "damaged": report.damaged,
        "damaged_bytes": report.damaged_bytes,
        "missing_bytes": report.missing_bytes,
        "cut_off_bytes": report.cut_off_bytes,
        "unused_bytes": report.unused_bytes,
        "wrong_offsets": report.wrong_offsets,
        "wrong_timestamps": report.wrong_timestamps,
        "damages": [hole._asdict() for hole in report.holes],
    }


def print_part(part: Part) -> None:
    result, report, log = part.result, part.result.report, part.log
    text = (
        f"{part.name}: {counted(report.records, 'record')}, {size_text(result.checksum.data_bytes)} of keys and values"
    )
    if part.work is not None and part.work.found:
        text += f"; {part.work.found:,} of them were there before"
    print(text)
    print(f"  checksum {result.checksum.text()}{VERIFIED[part.verified]}")
    kafka = "Kafka 0.7" if log.is_kafka07 else "Kafka 0.8 to 0.10"
    compressed = [f"{count:,} {codec_name(codec)}" for codec, count in sorted(report.codecs.items()) if codec]
    of_them = f", of them {', '.join(compressed)}" if compressed else ""
    files = f"{counted(len(log.segments), 'file')} of {kafka}, {size_text(log.size_bytes)}"
    print(f"  read {files}: {counted(report.messages, 'message')}{of_them}")
    if report.cut_off_bytes:
        print(f"  the log ends within a message, as after a crash: {report.cut_off_bytes:,} bytes passed over")
    if report.unused_bytes:
        print(f"  zeros at the end of a file, which was not filled: {report.unused_bytes:,} bytes")
    for line in damage_lines(part):
        print("  " + paint(line, RED))
    if part.verified is False:
        print("  " + paint("NOT VERIFIED: the topic has other records than the files", RED))


VERIFIED = {None: "", True: ", read back and equal", False: ""}


def damage_lines(part: Part) -> list[str]:
    """What is wrong with the files, the first places by name."""
    report = part.result.report
    lines = []
    if report.damaged:
        lines.append(f"DAMAGED: {counted(report.damaged, 'place')}, {report.damaged_bytes:,} bytes passed over")
        shown = report.holes[:HOLES_PRINTED_MAX]
        lines += [
            f"  {printable(hole.path)}, byte {hole.position}, {hole.size_bytes} bytes: {hole.reason}" for hole in shown
        ]
        if report.damaged > len(shown):
            lines.append(f"  and {counted(report.damaged - len(shown), 'further place')}")
    if report.missing_bytes:
        lines.append(f"MISSING: {report.missing_bytes:,} bytes of the log, whose files are not there")
    if report.wrong_offsets:
        lines.append(f"DAMAGED: {counted(report.wrong_offsets, 'offset')} that cannot be; the records were kept")
    if report.wrong_timestamps:
        lines.append(f"DAMAGED: {counted(report.wrong_timestamps, 'time')} before 1970; the records were kept without")
    return lines


def codec_name(codec: int) -> str:
    return Codec(codec).kafka_name if codec < len(Codec) else f"of unknown compression {codec}"
