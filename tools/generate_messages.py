"""Writes the message classes, `src/penstock/protocol/messages/`, from the schema file.

    python tools/generate_messages.py [--check]

One module a message, one slotted class a struct. The classes hold data only, a line a field;
their constructors and the codecs are made at run time.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock.protocol import schema
from penstock.protocol.schema import Field, MessageSchema, Struct

MESSAGES = Path(__file__).parent.parent / "src" / "penstock" / "protocol" / "messages"

PACKAGE_DOCS = {
    "": "Kafka's messages, one module each.",
    "metadata": "Records of the metadata log, `__cluster_metadata`.",
    "group": "Records of the group coordinator, `__consumer_offsets`.",
    "transaction": "Records of the transaction coordinator, `__transaction_state`.",
    "share": "Records of the share coordinator, `__share_group_state`.",
    "raft": "The quorum state file of a metadata log.",
    "remote_log": "Records of the tiered storage metadata, `__remote_log_metadata`.",
    "log": "The producer state snapshot of a partition.",
    "own": "Messages of our own APIs.",
    "guardian": "Records of Guardian's log, `__guardian_log`.",
}

GENERATED = "Written by tools/generate_messages.py from the schema; do not edit."

PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "UUID",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
}


def python_type(field: Field) -> str:
    """The type of the attribute."""
    element = field.type if field.struct is not None else PYTHON_TYPES.get(field.type, "int")
    whole = f"list[{element}]" if field.is_array else element
    return f"{whole} | None" if field.nullable or field.null_by_default else whole


def default_value(field: Field) -> str:
    """The expression for the default of the attribute."""
    if field.null_by_default:
        return "None"
    if field.is_array or field.struct is not None:
        return "ABSENT"
    match field.type:
        case "string":
            return repr(field.default)
        case "bytes" | "records":
            return 'b""'
        case "uuid":
            return "ZERO_UUID"
        case "bool":
            return "True" if field.default == "true" else "False"
        case "float64":
            return field.default or "0.0"
    return field.default or "0"


def structs_of(message: MessageSchema) -> Iterator[Struct]:
    """The message's structs, the message itself first, each once."""
    seen: set[str] = set()
    waiting = [message.root, *message.shared.values()]
    while waiting:
        struct = waiting.pop(0)
        if struct.name not in seen:
            seen.add(struct.name)
            yield struct
            waiting[:0] = [field.struct for field in struct.fields if field.struct is not None]


def class_text(struct: Struct, message: MessageSchema) -> str:
    """The source of one class: a line a field."""
    fields = [f"    {each.attribute}: {python_type(each)} = {default_value(each)}" for each in struct.fields]
    if struct is not message.root:
        return "\n".join([f"class {struct.name}(Struct):", *(fields or ["    pass"])]) + "\n"
    heading = message.heading
    lowest, highest = heading.versions.lowest, heading.versions.highest
    told = f"key={heading.api_key}, versions=({lowest}, {highest})"
    if heading.flexible:
        told += f", flexible_from={heading.flexible.lowest}"
    doc = f'    """{heading.name}, versions {lowest} to {highest}."""'
    return "\n".join([f"class {struct.name}(Message, {told}):", doc, *([""] if fields else []), *fields]) + "\n"


def module_text(message: MessageSchema) -> str:
    """The source of one message's module."""
    classes = [class_text(struct, message) for struct in structs_of(message)]
    body = "\n\n".join(classes)
    wanted = ["ABSENT", "Message", "Records", "Struct", "ZERO_UUID"]
    used = [name for name in wanted if re.search(rf"\b{name}\b", body)]
    head = [f'"""{message.heading.name}. {GENERATED}"""', "", "from __future__ import annotations", ""]
    if "UUID" in body.replace("ZERO_UUID", ""):
        head += ["from uuid import UUID", ""]
    head += [f"from penstock.protocol.message import {', '.join(used)}", "", ""]
    return "\n".join(head) + "\n" + body


def all_files() -> dict[str, str]:
    """Every file of the package, by its path within it."""
    files: dict[str, str] = {}
    for package, doc in PACKAGE_DOCS.items():
        files[f"{package}/__init__.py".lstrip("/")] = f'"""{doc} {GENERATED}"""\n'
    for name in schema.headings():
        message = schema.message(name)
        path = message.heading.module.removeprefix("penstock.protocol.messages.").replace(".", "/")
        files[f"{path}.py"] = module_text(message)
    return files


def differences() -> list[str]:
    """Paths that are missing, superfluous or different on disk."""
    wanted = all_files()
    present = {str(path.relative_to(MESSAGES)): path.read_text() for path in MESSAGES.rglob("*.py")}
    return sorted(path for path in wanted.keys() | present.keys() if wanted.get(path) != present.get(path))


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the message classes from the schema file.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    if parser.parse_args().check:
        different = differences()
        sys.exit(f"error: not what the generator writes: {', '.join(different)}" if different else 0)
    shutil.rmtree(MESSAGES, ignore_errors=True)
    for path, text in all_files().items():
        file = MESSAGES / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    main()
