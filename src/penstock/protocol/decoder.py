"""Writes the source of a decoder: one function for one version of a message.

The function walks the bytes once. Neighbouring fixed-width values, and the first byte of a varint that follows them,
are read by one struct call. No length is trusted: a count of elements is checked against the bytes left before the
loop; a string or byte length that goes beyond the end is found at the next read, or by the check of the position at the
end, because positions only grow and slices of what is not there are empty.

Where a message has no record bytes, the function works on a `bytes` copy, on which everything is faster. Where it has,
it works on the memoryview, and record bytes are views of it.
"""

from __future__ import annotations

from penstock.protocol.limits import ARRAY_ELEMENTS_MAX
from penstock.protocol.schema import FIXED_SIZES_BYTES, FIXED_TYPES, Field, MessageSchema, Struct
from penstock.protocol.source import SourceWriter, qualified


class DecoderWriter(SourceWriter):
    """The decoder of one version of a message. `p` is the position, `end` the end of the data."""

    def write(self) -> str:
        """The source of `decode(view, p) -> (message, position after it)`."""
        root = self.schema.root
        self.keeps_views = self.has_type(root, "records")
        self.after_run: list[str] = []
        self.lines.append("def decode(view, p):")
        if self.keeps_views:
            self.add("data = view if view.__class__ is memoryview else memoryview(view)")
        else:
            self.add("data = view if view.__class__ is bytes else bytes(view)")
        self.add("end = len(data)")
        self.add(f"budget = {ARRAY_ELEMENTS_MAX}")
        self.begin_steps()
        self.struct("m", root)
        self.flush()
        with self.block("if p > end:"):
            self.add("raise IndexError('the data ends inside a field')")
        self.add("return m, p")
        return "\n".join(self.lines) + "\n"

    # Runs of fixed-width values

    def read(self, code: str, target: str) -> None:
        """Reads a fixed-width value into `target`, together with its neighbours."""
        self.run.append((code, target))

    def flush(self) -> None:
        """Writes the reads of the run."""
        if not self.run:
            return
        codes = [code for code, _ in self.run]
        if codes == ["B"]:
            self.add(f"{self.run[0][1]} = data[p]")
            self.add("p += 1")
        else:
            name = self.packer("".join(codes), "unpack_from")
            targets = ", ".join(target for _, target in self.run) + ("," if len(self.run) == 1 else "")
            self.add(f"{targets} = {name}(data, p)")
            self.add(f"p += {sum(FIXED_SIZES_BYTES[code] for code in codes)}")
        self.run.clear()
        for line in self.after_run:
            self.add(line)
        self.after_run.clear()

    # Structs

    def struct(self, target: str, group: Struct) -> None:
        """Reads a struct into the variable `target`. The last read may still be in the run."""
        self.add(f"{target} = new({group.name})")
        for field in group.fields:
            if self.version not in field.versions or self.version in field.tagged:
                self.set_default(target, field)
        for field in self.untagged(group):
            self.field(target, group, field)
        if self.flexible:
            self.tags(target, group)

    def set_default(self, target: str, field: Field) -> None:
        """Sets a field that is not there. A struct is made here: its constructor would take three times as long."""
        place = f"{target}.{field.attribute}"
        if field.struct is None or field.is_array or field.null_by_default:
            self.add(f"{place} = {self.default(field)}")
            return
        inner = self.fresh("o")
        self.add(f"{inner} = {place} = new({field.struct.name})")
        for each in field.struct.fields:
            self.set_default(inner, each)

    def default(self, field: Field) -> str:
        """The expression for the value of a field that is not there and not a struct."""
        if field.null_by_default:
            return "None"
        if field.is_array:
            return "[]"
        match field.type:
            case "string":
                return repr(field.default)
            case "bytes":
                return "b''"
            case "records":
                return "memoryview(b'')"
            case "uuid":
                return "ZERO_UUID"
            case "bool":
                return "True" if field.default == "true" else "False"
        return field.default or "0"

    def tags(self, target: str, group: Struct) -> None:
        """Reads the tagged fields at the end of a struct."""
        count = self.fresh("n")
        self.read("B", count)
        self.flush()
        known = self.tagged(group)
        with self.block(f"if {count}:"):
            if not known:
                self.add(f"p = skip_tags(data, p, end, {count})")
                return
            self.add(f"{count}, p = tag_count(data, p, end, {count})")
            with self.block(f"for _ in range({count}):"):
                tag, size, stop = self.fresh("t"), self.fresh("s"), self.fresh("q")
                self.add(f"{tag}, p = read_varint(data, p)")
                self.add(f"{size}, p = read_varint(data, p)")
                self.add(f"{stop} = p + {size}")
                for index, field in enumerate(known):
                    with self.block(f"{'if' if index == 0 else 'elif'} {tag} == {field.tag}:"):
                        self.field(target, group, field, is_tagged=True)
                        self.flush()
                        with self.block(f"if p != {stop}:"):
                            name = qualified(group, field)
                            self.add(f"raise wrong_tag_size({name!r}, {size}, p - {stop} + {size})")
                with self.block("else:"):
                    self.add(f"p = {stop}")

    # Fields

    def field(self, target: str, group: Struct, field: Field, *, is_tagged: bool = False) -> None:
        """Reads one field into its attribute."""
        place = f"{target}.{field.attribute}"
        name = qualified(group, field)
        if field.is_array:
            self.array(place, name, field)
        elif field.struct is not None:
            self.single_struct(place, field, is_tagged)
        elif field.type in FIXED_TYPES:
            self.fixed(place, field.type)
        elif field.type == "string":
            self.string(place, name, self.is_flexible(field), nullable=self.version in field.nullable)
        else:
            self.bytes(place, name, field)

    def fixed(self, place: str, type_name: str) -> None:
        """Reads a value of fixed width."""
        if type_name == "uuid":
            raw = self.fresh("u")
            self.read("16s", raw)
            self.after_run.append(f"{place} = uuids.get({raw}) or new_uuid({raw})")
        else:
            self.read(FIXED_TYPES[type_name], place)

    def single_struct(self, place: str, field: Field, is_tagged: bool) -> None:
        """Reads a struct that is not in an array; a byte before it says whether it is null."""
        assert field.struct is not None
        inner = self.fresh("o")
        if self.version not in field.nullable:
            self.struct(inner, field.struct)
            self.add(f"{place} = {inner}")
            return
        flag = self.fresh("n")
        self.read("B" if is_tagged else "b", flag)
        self.flush()
        with self.block(f"if {flag} {'== 0' if is_tagged else '< 0'}:"):
            self.add(f"{place} = None")
        with self.block("else:"):
            self.struct(inner, field.struct)
            self.flush()
            self.add(f"{place} = {inner}")

    def null(self, place: str, name: str, *, nullable: bool) -> str:
        """The statement for a null value."""
        return f"{place} = None" if nullable else f"raise null_field({name!r})"

    def string(self, place: str, name: str, flexible: bool, *, nullable: bool) -> None:
        """Reads a string; `place` is a target, or ends in "(" to be called with it."""
        count, stop = self.fresh("n"), self.fresh("e")
        self.read("B" if flexible else "h", count)
        self.flush()
        if flexible:
            with self.block(f"if {count} > 127:"):
                self.add(f"{count}, p = read_string_length(data, p - 1, {name!r})")
        test = f"if {count}:" if flexible else f"if {count} >= 0:"
        with self.block(test):
            self.add(f"{stop} = p + {count}{' - 1' if flexible else ''}")
            text = f"str(data[p:{stop}], 'utf-8')" if self.keeps_views else f"data[p:{stop}].decode()"
            self.add(f"{place} = {text}")
            self.add(f"p = {stop}")
        self.not_there(place, name, count, flexible=flexible, nullable=nullable)

    def not_there(self, place: str, name: str, count: str, *, flexible: bool, nullable: bool) -> None:
        """The other branch of a length test: null, or an error."""
        if flexible:
            with self.block("else:"):
                self.add(self.null(place, name, nullable=nullable))
            return
        if nullable:
            with self.block(f"elif {count} == -1:"):
                self.add(f"{place} = None")
        with self.block("else:"):
            self.add(f"raise negative_length({name!r}, {count})")

    def long_count(self, count: str, *, inline: bool = False) -> None:
        """Reads the rest of a varint whose first byte is in `count`. Record batches usually have three bytes."""
        with self.block(f"if {count} > 127:"):
            if not inline:
                self.add(f"{count}, p = read_varint(data, p - 1)")
                return
            second, third = self.fresh("b"), self.fresh("b")
            self.add(f"{second}, {third} = {self.packer('BB', 'unpack_from')}(data, p)")
            with self.block(f"if {second} > 127 and {third} < 128:"):
                self.add(f"{count} = {count} & 127 | ({second} & 127) << 7 | {third} << 14")
                self.add("p += 2")
            with self.block("else:"):
                self.add(f"{count}, p = read_varint(data, p - 1)")

    def bytes(self, place: str, name: str, field: Field) -> None:
        """Reads a byte string (copied) or record batches (a view)."""
        flexible, nullable = self.is_flexible(field), self.version in field.nullable
        count, stop = self.fresh("n"), self.fresh("e")
        self.read("B" if flexible else "i", count)
        self.flush()
        if flexible:
            self.long_count(count, inline=field.type == "records")
        with self.block(f"if {count}:" if flexible else f"if {count} >= 0:"):
            self.add(f"{stop} = p + {count}{' - 1' if flexible else ''}")
            copies = field.type == "bytes" and self.keeps_views
            self.add(f"{place} = bytes(data[p:{stop}])" if copies else f"{place} = data[p:{stop}]")
            self.add(f"p = {stop}")
        self.not_there(place, name, count, flexible=flexible, nullable=nullable)

    # Arrays

    def array(self, place: str, name: str, field: Field) -> None:
        """Reads an array into a new list."""
        flexible = self.is_flexible(field)
        count = self.fresh("n")
        self.read("B" if flexible else "i", count)
        self.flush()
        if flexible:
            self.long_count(count)
        with self.block(f"if {count}:" if flexible else f"if {count} >= 0:"):
            if flexible:
                self.add(f"{count} -= 1")
            self.elements(place, name, field, count)
        self.not_there(place, name, count, flexible=flexible, nullable=self.version in field.nullable)

    def elements(self, place: str, name: str, field: Field, count: str) -> None:
        code = FIXED_TYPES.get(field.type)
        if code is not None and code != "16s":
            self.check_count(name, count, FIXED_SIZES_BYTES[code])
            self.integers(place, count, code)
            return
        if field.struct is not None:
            minimum_size = self.minimum_size(field.struct)
        elif code is not None:
            minimum_size = 16
        else:
            minimum_size = 1 if self.is_flexible(field) else 2
        assert minimum_size > 0, f"{name} has elements of no bytes"
        self.check_count(name, count, minimum_size)
        items = self.fresh("l")
        self.add(f"{items} = {place} = []")
        if field.struct is not None:
            self.structs(items, field.struct, count)
            return
        with self.block(f"for _ in range({count}):"):
            self.pace()
            if code is not None:
                self.add("u = bytes(data[p:p + 16])")
                self.add("p += 16")
                self.add(f"{items}.append(uuids.get(u) or new_uuid(u))")
            else:
                text = self.fresh("v")
                self.string(text, name, self.is_flexible(field), nullable=False)
                self.add(f"{items}.append({text})")

    def check_count(self, name: str, count: str, minimum_size: int) -> None:
        """Refuses a count that the bytes left cannot hold, or that is more than one message may have."""
        product = count if minimum_size == 1 else f"{count} * {minimum_size}"
        with self.block(f"if {product} > end - p or {count} > budget:"):
            self.add(f"raise too_many({name!r}, {count}, end - p)")
        self.add(f"budget -= {count}")

    def integers(self, place: str, count: str, code: str) -> None:
        """Reads an array of numbers with one struct call."""
        size_bytes = FIXED_SIZES_BYTES[code]
        with self.block(f"if {count} < 16:"):
            self.add(f"{place} = list(unpack_many_{code}[{count}](data, p))")
        with self.block("else:"):
            self.add(f"{place} = list(struct_unpack_from('>%d{code}' % {count}, data, p))")
        self.add(f"p += {count}" if size_bytes == 1 else f"p += {count} * {size_bytes}")

    def structs(self, items: str, group: Struct, count: str) -> None:
        """Reads structs one by one, or, where all are of one width, with one iterator."""
        codes = self.fixed_formats(group)
        if codes is None:
            self.struct_loop(items, group, count)
            return
        width = sum(FIXED_SIZES_BYTES[code] for code in codes) + (1 if self.flexible else 0)
        stop = self.fresh("e")
        self.add(f"{stop} = p + {count} * {width}")
        test = f"if {count} > 2"
        if self.flexible:  # elements without tagged fields are of one width, and the last byte of each is zero
            ends = f"data[p + {width - 1}:{stop}:{width}]"
            ends = f"bytes({ends})" if self.keeps_views else ends
            test += f" and {ends}.count(0) == {count}"
        with self.block(f"{test}:"):
            self.same_width(items, group, codes, stop)
        with self.block("else:"):
            self.struct_loop(items, group, count)

    def same_width(self, items: str, group: Struct, codes: list[str], stop: str) -> None:
        """Reads structs that all have the same width, up to `stop`."""
        fields = self.untagged(group)
        names = [self.fresh("v") for _ in fields]
        formats = "".join(codes) + ("x" if self.flexible else "")
        iterate = self.packer(formats, "iter_unpack")
        element = self.fresh("o")
        with self.block(f"for {', '.join(names)}, in {iterate}(data[p:{stop}]):"):
            self.pace()
            self.add(f"{element} = new({group.name})")
            for field in group.fields:
                if field not in fields:
                    self.set_default(element, field)
            for field, name in zip(fields, names, strict=True):
                value = f"uuids.get({name}) or new_uuid({name})" if field.type == "uuid" else name
                self.add(f"{element}.{field.attribute} = {value}")
            self.add(f"{items}.append({element})")
        self.add(f"p = {stop}")

    def struct_loop(self, items: str, group: Struct, count: str) -> None:
        element = self.fresh("o")
        with self.block(f"for _ in range({count}):"):
            self.pace()
            self.struct(element, group)
            self.flush()
            self.add(f"{items}.append({element})")


def decoder_source(
    schema: MessageSchema, version: int, classes: dict[str, type], *, stepped: bool = False
) -> tuple[str, dict[str, object]]:
    """The source of a decoder and the globals it needs."""
    writer = DecoderWriter(schema, version, dict(classes), stepped=stepped)
    source = writer.write()
    return source, writer.namespace
