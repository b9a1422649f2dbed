"""Writes the source of an encoder: one function for one version of a message.

The function gathers pieces in a list and joins them at the end. Neighbouring fixed-width values, and the length that
follows them when it fits in one byte, are packed by one struct call. Record bytes end the piece before them and become
chunks of their own.

A field that the version lacks must have its default, unless Kafka's definition calls it ignorable: otherwise the peer
would silently get something else than what was meant.
"""

from __future__ import annotations

from penstock.protocol.limits import STRING_MAX_BYTES
from penstock.protocol.schema import FIXED_TYPES, Field, MessageSchema, Struct
from penstock.protocol.source import SourceWriter, qualified
from penstock.protocol.wire import JOINED_RECORDS_MAX_BYTES

SHORTENED = "error_message"
"""The end of the names of fields that are cut where they are too long; other strings that are too long are refused."""


class EncoderWriter(SourceWriter):
    """The encoder of one version of a message. `out` holds the pieces, `chunks` what is finished, and `written` what an
    encoder in steps has joined so far: to join millions of pieces in the end would be a long step by itself."""

    def write(self) -> str:
        """The source of `encode(m) -> list of chunks`."""
        root = self.schema.root
        self.out = "out"
        self.lines.append("def encode(m):")
        self.add("out = []")
        self.begin_steps()
        keeps_chunks = self.has_type(root, "records")
        if keeps_chunks:
            self.add("chunks = []")
        self.written = "chunks" if keeps_chunks else "written"
        if self.stepped and not keeps_chunks:
            self.add("written = []")
        self.struct("m", root)
        self.flush()
        if keeps_chunks:
            with self.block("if out:"):
                self.add("chunks.append(b''.join(out))")
            self.add("return chunks")
        elif self.stepped:
            self.add("return [b''.join(written + out)]")
        else:
            self.add("return [b''.join(out)]")
        return "\n".join(self.lines) + "\n"

    def end_of_step(self) -> None:
        """Writes what becomes of the pieces of a step. Those of tagged fields wait, and come after them."""
        self.add(f"{self.written}.append(b''.join(out))")
        self.add("out.clear()")
        super().end_of_step()

    # Runs of fixed-width values

    def put(self, code: str, expression: str) -> None:
        """Writes a fixed-width value, together with its neighbours."""
        self.run.append((code, expression))

    def flush(self) -> None:
        """Writes the packing of the run."""
        if self.run:
            self.add(f"{self.out}.append({self.packed()})")
            self.run.clear()

    def packed(self) -> str:
        """The expression that packs the run."""
        if len(self.run) == 1 and self.run[0][0] == "B":
            expression = self.run[0][1]
            return repr(bytes([int(expression)])) if expression.isdecimal() else f"one[{expression}]"
        name = self.packer("".join(code for code, _ in self.run), "pack")
        return f"{name}({', '.join(expression for _, expression in self.run)})"

    def flush_with_varint(self, count: str, in_long_case: str = "") -> None:
        """Writes the run and an unsigned varint, which is usually one byte and then part of the run."""
        before = list(self.run)
        with self.block(f"if {count} < 128:"):
            self.put("B", count)
            self.flush()
        self.run = before
        with self.block("else:"):
            if in_long_case:
                self.add(in_long_case)
            self.flush()
            self.add(f"{self.out}.append(varint({count}))")

    # Structs

    def struct(self, source: str, group: Struct) -> None:
        """Writes the struct in the variable `source`. The last values may still be in the run."""
        for field in group.fields:
            if self.version not in field.versions and not field.ignorable:
                with self.block(f"if {self.differs(f'{source}.{field.attribute}', field)}:"):
                    self.add(f"raise not_in_version({qualified(group, field)!r}, {self.version})")
        for field in self.untagged(group):
            self.field(source, group, field)
        if self.flexible:
            self.tags(source, group)

    def differs(self, value: str, field: Field) -> str:
        """The expression that is true when a field does not have its default."""
        if field.null_by_default:
            return f"{value} is not None"
        nullable = bool(field.nullable)
        if field.is_array:
            return f"({value} or {value} is None)" if nullable else value
        if field.struct is not None:
            inner = self.fresh("d")
            tests = [self.differs(f"{inner}.{each.attribute}", each) for each in field.struct.fields]
            tests[0] = tests[0].replace(f"{inner}.", f"({inner} := {value}).", 1)
            test = f"({' or '.join(tests)})"
            return f"({value} is None or {test})" if nullable else test
        match field.type:
            case "string":
                return f"{value} != {field.default!r}"
            case "bytes" | "records":
                return f"({value} is None or len({value}))" if nullable else f"len({value})"
            case "uuid":
                return f"({value} is not ZERO_UUID and {value} != ZERO_UUID)"
            case "bool":
                return f"not {value}" if field.default == "true" else value
        return f"{value} != {field.default or 0}"

    def tags(self, source: str, group: Struct) -> None:
        """Writes the tagged fields that do not have their defaults."""
        known = self.tagged(group)
        if not known:
            self.put("B", "0")
            return
        tests = [self.differs(f"{source}.{field.attribute}", field) for field in known]
        before = list(self.run)
        with self.block(f"if {' or '.join(tests)}:"):
            self.flush()
            self.tagged_fields(source, group, known, tests)
        self.run = before
        with self.block("else:"):
            self.put("B", "0")
            self.flush()

    def tagged_fields(self, source: str, group: Struct, known: list[Field], tests: list[str]) -> None:
        """Writes the count of tagged fields and each with its tag and size."""
        outer, tags, count = self.out, self.fresh("tags"), self.fresh("n")
        self.add(f"{tags} = []")
        self.add(f"{count} = 0")
        for field, test in zip(known, tests, strict=True):
            with self.block(f"if {test}:"):
                self.out = self.fresh("out")
                self.add(f"{self.out} = []")
                self.field(source, group, field, is_tagged=True)
                self.flush()
                value = self.fresh("v")
                self.add(f"{value} = b''.join({self.out})")
                self.add(f"{tags} += ({bytes([field.tag])!r}, varint(len({value})), {value})")
                self.add(f"{count} += 1")
                self.out = outer
        self.add(f"{outer}.append(one[{count}])")
        self.add(f"{outer} += {tags}")

    # Fields

    def field(self, source: str, group: Struct, field: Field, *, is_tagged: bool = False) -> None:
        value = f"{source}.{field.attribute}"
        name = qualified(group, field)
        if field.is_array:
            self.array(value, name, field)
        elif field.struct is not None:
            self.single_struct(value, field.struct, is_tagged, nullable=self.version in field.nullable)
        elif field.type in FIXED_TYPES:
            self.put(FIXED_TYPES[field.type], f"{value}.bytes" if field.type == "uuid" else value)
        elif field.type == "string":
            self.string(value, name, self.is_flexible(field), nullable=self.version in field.nullable)
        elif field.type == "records":
            self.records(value, field)
        else:
            self.bytes(value, field)

    def single_struct(self, value: str, group: Struct, is_tagged: bool, *, nullable: bool) -> None:
        """Writes a struct that is not in an array; a byte before it says whether it is null."""
        inner = self.fresh("o")
        self.add(f"{inner} = {value}")
        if not nullable:
            self.struct(inner, group)
            return
        self.flush()
        with self.block(f"if {inner} is None:"):
            self.put("b", "0" if is_tagged else "-1")
            self.flush()
        with self.block("else:"):
            self.put("b", "1")
            self.struct(inner, group)
            self.flush()

    def string(self, value: str, name: str, flexible: bool, *, nullable: bool) -> None:
        if not nullable:
            self.text(value, name, flexible)
            return
        text = self.fresh("s")
        self.add(f"{text} = {value}")
        before = list(self.run)
        with self.block(f"if {text} is None:"):
            self.put(*(("B", "0") if flexible else ("h", "-1")))
            self.flush()
        self.run = before
        with self.block("else:"):
            self.text(text, name, flexible)

    def text(self, value: str, name: str, flexible: bool) -> None:
        """Writes a string that is not null."""
        text, count = self.fresh("s"), self.fresh("n")
        self.add(f"{text} = {value}.encode()")
        if name.endswith(SHORTENED):
            with self.block(f"if len({text}) > {STRING_MAX_BYTES}:"):
                self.add(f"{text} = shortened({text})")
        if flexible:
            self.add(f"{count} = len({text}) + 1")
            self.flush_with_varint(count, f"check_string_length({count} - 1, {name!r})")
        else:
            self.add(f"{count} = len({text})")
            with self.block(f"if {count} > {STRING_MAX_BYTES}:"):
                self.add(f"check_string_length({count}, {name!r})")
            self.put("h", count)
            self.flush()
        self.add(f"{self.out}.append({text})")

    def bytes(self, value: str, field: Field) -> None:
        """Writes a byte string."""
        data, count = self.fresh("s"), self.fresh("n")
        self.add(f"{data} = {value}")
        self.count(data, count, field)
        with self.block(f"if {data} is not None:" if self.version in field.nullable else "if True:"):
            self.add(f"{self.out}.append({data})")

    def records(self, value: str, field: Field) -> None:
        """Writes record batches: the common case, one view, here; others in `put_records`."""
        assert self.out == "out", "record bytes are never tagged fields"
        data, count = self.fresh("s"), self.fresh("n")
        self.add(f"{data} = {value}")
        self.add(f"one_view = {data}.__class__ is memoryview")
        self.count(data, count, field, length=f"{data}.nbytes if one_view else records_length({data})")
        with self.block(f"if one_view and {count} > {JOINED_RECORDS_MAX_BYTES + 1}:"):
            self.add("chunks.append(b''.join(out))")
            self.add("out.clear()")
            self.add(f"chunks.append({data})")
        with self.block(f"elif {data} is not None:" if self.version in field.nullable else "else:"):
            self.add(f"put_records(chunks, out, {data}, {count}{' - 1' if self.is_flexible(field) else ''})")

    def count(self, value: str, count: str, field: Field, *, length: str = "") -> None:
        """Writes a number of bytes or elements; null has one of its own."""
        flexible = self.is_flexible(field)
        expression = f"({length or f'len({value})'})" + (" + 1" if flexible else "")
        if self.version in field.nullable:
            expression = f"{0 if flexible else -1} if {value} is None else {expression}"
        self.add(f"{count} = {expression}")
        if flexible:
            self.flush_with_varint(count)
        else:
            self.put("i", count)
            self.flush()

    # Arrays

    def array(self, value: str, name: str, field: Field) -> None:
        flexible = self.is_flexible(field)
        items, count = self.fresh("l"), self.fresh("n")
        self.add(f"{items} = {value}")
        self.count(items, count, field)
        with self.block(f"if {items}:"):
            code = FIXED_TYPES.get(field.type)
            if code is not None and code != "16s":
                self.integers(items, count, code, flexible)
                return
            item = self.fresh("o")
            with self.block(f"for {item} in {items}:"):
                self.pace()
                if field.struct is not None:
                    self.struct(item, field.struct)
                elif code is not None:
                    self.add(f"{self.out}.append({item}.bytes)")
                else:
                    self.string(item, name, flexible, nullable=False)
                self.flush()

    def integers(self, items: str, count: str, code: str, flexible: bool) -> None:
        """Writes an array of numbers with one struct call."""
        with self.block(f"if {count} < 16:"):
            self.add(f"{self.out}.append(pack_many_{code}[{count}{' - 1' if flexible else ''}](*{items}))")
        with self.block("else:"):
            self.add(f"{self.out}.append(struct_pack(f'>{{len({items})}}{code}', *{items}))")


def encoder_source(
    schema: MessageSchema, version: int, classes: dict[str, type], *, stepped: bool = False
) -> tuple[str, dict[str, object]]:
    """The source of an encoder and the globals it needs."""
    writer = EncoderWriter(schema, version, dict(classes), stepped=stepped)
    source = writer.write()
    return source, writer.namespace
