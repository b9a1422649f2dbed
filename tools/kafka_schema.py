"""Writes `src/penstock/protocol/schema.txt` from the message definitions inside Apache Kafka's jars.

    python tools/kafka_schema.py JARS [--check]

JARS is a directory with Kafka's jars (`kafka-clients-*.jar`, `kafka-metadata-*.jar`, ...). The definitions are JSON
with comments. Names, types, versions, defaults and attributes are kept; sentences are not. A new Kafka release is this
command, `tools/generate_messages.py`, and the review of the two diffs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).parent.parent / "src" / "penstock" / "protocol" / "schema.txt"

PACKAGES = {
    "kafka-clients": "-",
    "kafka-metadata": "metadata",
    "kafka-group-coordinator": "group",
    "kafka-transaction-coordinator": "transaction",
    "kafka-share-coordinator": "share",
    "kafka-raft": "raft",
    "kafka-storage": "remote_log",
}
"""Which jar's definitions go to which package below `penstock.protocol.messages`."""

OTHER_PACKAGES = {"ProducerSnapshot": "log"}
"""Definitions that are at home elsewhere than the rest of their jar."""


def definitions(jars: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every live definition with its package, in the order of packages and names."""
    for prefix, package in PACKAGES.items():
        found = [path for path in jars.glob(f"{prefix}-*.jar") if re.fullmatch(rf"{prefix}-[0-9.]+\.jar", path.name)]
        if len(found) != 1:
            raise SystemExit(f"error: {jars} must hold exactly one {prefix}-VERSION.jar, it holds {len(found)}")
        with zipfile.ZipFile(found[0]) as jar:
            names = [name for name in jar.namelist() if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name)]
            for name in sorted(names, key=lambda path: path.rpartition("/")[2]):
                definition = parse(jar.read(name).decode())
                if definition["validVersions"] != "none":
                    yield OTHER_PACKAGES.get(definition["name"], package), definition


def parse(text: str) -> dict[str, Any]:
    """JSON with whole-line comments."""
    parsed: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return parsed


def block(package: str, definition: dict[str, Any]) -> str:
    """One message's block of the schema file."""
    heading = [
        definition["name"],
        definition["type"],
        package,
        definition["validVersions"],
        definition["flexibleVersions"],
    ]
    if "apiKey" in definition:
        heading.append(f"key={definition['apiKey']}")
    if "listeners" in definition:
        heading.append("listeners=" + ",".join(sorted(definition["listeners"])))
    if definition.get("latestVersionUnstable"):
        heading.append("unstable")
    lines = [" ".join(heading), *field_lines(definition["fields"], 1)]
    for struct in definition.get("commonStructs", ()):
        lines += [f" *{struct['name']} {struct['versions']}", *field_lines(struct["fields"], 1)]
    return "\n".join(lines)


def field_lines(fields: list[dict[str, Any]], depth: int) -> Iterator[str]:
    """The lines of some fields and of the structs in them."""
    for field in fields:
        versions = field["versions"] if "versions" in field else field["taggedVersions"]
        parts = [field["name"], field["type"], versions]
        if "nullableVersions" in field:
            parts.append(f"null={field['nullableVersions']}")
        if field.get("default") not in (None, ""):  # a JSON null is no default at all; the string "null" is one
            parts.append(f"default={default_text(field['default'])}")
        if "tag" in field:
            parts.append(f"tag={field['tag']}:{field['taggedVersions']}")
        if "flexibleVersions" in field:
            parts.append(f"flexible={field['flexibleVersions']}")
        if str(field.get("ignorable", False)).lower() == "true":
            parts.append("ignorable")
        if field.get("mapKey"):
            parts.append("key")
        if "entityType" in field:
            parts.append(f"entity={field['entityType']}")
        yield " " * depth + " ".join(parts)
        yield from field_lines(field.get("fields", []), depth + 1)


def default_text(default: object) -> str:
    """A default in one spelling: numbers in decimal, booleans in lower case."""
    text = str(default).lower() if isinstance(default, bool) else str(default)
    assert " " not in text, f"a default with a space needs quoting: {text!r}"
    return str(int(text, 16)) if text.startswith("0x") else text


def schema_text(jars: Path) -> str:
    """The whole schema file."""
    return "\n\n".join(block(package, definition) for package, definition in definitions(jars)) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the schema file from Apache Kafka's jars.")
    parser.add_argument("jars", type=Path, help="directory with Apache Kafka's jars")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file differs")
    options = parser.parse_args()
    text = schema_text(options.jars)
    if options.check:
        sys.exit(0 if SCHEMA.read_text() == text else f"error: {SCHEMA} differs from the definitions in the jars")
    SCHEMA.write_text(text)


if __name__ == "__main__":
    main()
