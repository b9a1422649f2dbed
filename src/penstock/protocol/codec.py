"""Messages to bytes and back.

`encode` and `decode` look up the function for (message class, version) and call it; the first call for a pair writes
the function's source from the schema, compiles it and keeps it. `prepare` does that ahead of the first use.

The plain Produce and Fetch, which are the most frequent requests of all, have codecs of their own
(`protocol.plain_produce`, `protocol.plain_fetch`), which leave what is not plain to the written ones.

A large message is read or written in steps by `decode_steps` and `encode_steps`: generators with the same result.

Whatever is wrong with the bytes raises `ProtocolError`, never anything else, and takes memory in proportion to the
bytes given. A message that cannot be written raises it too, naming the field.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from penstock.errors import ProtocolError, UnsupportedVersionError
from penstock.protocol import plain_fetch, plain_produce, schema
from penstock.protocol.decoder import decoder_source
from penstock.protocol.encoder import encoder_source
from penstock.protocol.explain import first_fault
from penstock.protocol.message import Buffer, Chunk, Message, Struct
from penstock.protocol.wire import joined

M = TypeVar("M", bound=Message)

Decoder = Callable[[Buffer, int], tuple[Message, int]]
Encoder = Callable[[Message], list[Chunk]]

DecoderSteps = Callable[[Buffer, int], Generator[None, None, tuple[Message, int]]]
EncoderSteps = Callable[[Message], Generator[None, None, list[Chunk]]]

DECODERS: dict[tuple[type[Message], int], Decoder] = {}
ENCODERS: dict[tuple[type[Message], int], Encoder] = {}
STEPPED_DECODERS: dict[tuple[type[Message], int], DecoderSteps] = {}
STEPPED_ENCODERS: dict[tuple[type[Message], int], EncoderSteps] = {}

BROKEN = (struct.error, IndexError, UnicodeDecodeError)
"""What reading broken bytes raises."""
UNWRITABLE = (struct.error, TypeError, AttributeError, ValueError, OverflowError)
"""What writing a message raises whose values do not fit their fields."""


def decode(cls: type[M], version: int, view: Buffer, position: int = 0) -> tuple[M, int]:
    """Reads a message. Returns it and the position after it.

    Record batches are views of `view`; everything else is copied. Unknown tagged fields are passed over.

    Raises:
        UnsupportedVersionError: the message has no such version.
        ProtocolError: the bytes are not such a message.
    """
    decoder = DECODERS.get((cls, version)) or make_decoder(cls, version)
    try:
        return decoder(view, position)  # type: ignore[return-value]
    except BROKEN as error:
        raise ProtocolError(f"broken {cls.NAME} version {version}: {error}") from None


def decode_steps(cls: type[M], version: int, view: Buffer, position: int = 0) -> Generator[None, None, tuple[M, int]]:
    """Like `decode`, in steps: yields after every ELEMENTS_PER_STEP elements of arrays."""
    decoder = STEPPED_DECODERS.get((cls, version)) or make_stepped_decoder(cls, version)
    try:
        return (yield from decoder(view, position))  # type: ignore[return-value]
    except BROKEN as error:
        raise ProtocolError(f"broken {cls.NAME} version {version}: {error}") from None


def encode(message: Message, version: int) -> list[Chunk]:
    """Writes a message as chunks that follow each other; record bytes are not copied.

    Raises:
        UnsupportedVersionError: there is no such version, or it lacks a field that has been set.
        ProtocolError: a field's value cannot be written.
    """
    cls = message.__class__
    encoder = ENCODERS.get((cls, version)) or make_encoder(cls, version)
    try:
        return encoder(message)
    except UNWRITABLE as error:
        raise unwritable(message, version, error) from error


def encode_steps(message: Message, version: int) -> Generator[None, None, list[Chunk]]:
    """Like `encode`, in steps: yields after every ELEMENTS_PER_STEP elements of arrays. The message must not change."""
    cls = message.__class__
    encoder = STEPPED_ENCODERS.get((cls, version)) or make_stepped_encoder(cls, version)
    try:
        return (yield from encoder(message))
    except UNWRITABLE as error:
        raise unwritable(message, version, error) from error


def unwritable(message: Message, version: int, error: Exception) -> ProtocolError:
    """The error of a message that cannot be written, naming the field if it is found."""
    cls = message.__class__
    fault = first_fault(message, schema.message(cls.NAME), version)
    return ProtocolError(f"cannot write {cls.NAME} version {version}: {fault or error}")


def encode_bytes(message: Message, version: int) -> bytes:
    """Writes a message as one byte string. Record bytes must be buffers, not ranges of files."""
    return joined(encode(message, version))


def prepare(cls: type[Message], version: int) -> None:
    """Makes both codecs of a message version, so that its first use does not wait for them."""
    if (cls, version) not in DECODERS:
        make_decoder(cls, version)
    if (cls, version) not in ENCODERS:
        make_encoder(cls, version)


def make_decoder(cls: type[Message], version: int) -> Decoder:
    """Writes, compiles and keeps a decoder."""
    written = decoder_source(schema_of(cls, version), version, classes_of(cls))
    decoder: Decoder = compiled("decode", written, cls, version)
    if cls.NAME == "ProduceRequest" and version >= plain_produce.FLEXIBLE_FROM:
        decoder = plain_produce.plain_decoder(version, decoder)
    elif cls.NAME == "FetchRequest" and version >= plain_fetch.REQUESTS_FROM:
        decoder = plain_fetch.plain_request_decoder(version, decoder)
    elif cls.NAME == "FetchResponse" and version >= plain_fetch.RESPONSES_FROM:
        decoder = plain_fetch.plain_response_decoder(decoder)
    DECODERS[cls, version] = decoder
    return decoder


def make_encoder(cls: type[Message], version: int) -> Encoder:
    """Writes, compiles and keeps an encoder."""
    written = encoder_source(schema_of(cls, version), version, classes_of(cls))
    encoder: Encoder = compiled("encode", written, cls, version)
    if cls.NAME == "FetchResponse" and version >= plain_fetch.RESPONSES_FROM:
        encoder = plain_fetch.plain_response_encoder(encoder)
    elif cls.NAME == "FetchRequest" and version >= plain_fetch.REQUESTS_FROM:
        encoder = plain_fetch.plain_request_encoder(encoder)
    ENCODERS[cls, version] = encoder
    return encoder


def make_stepped_decoder(cls: type[Message], version: int) -> DecoderSteps:
    """Writes, compiles and keeps a decoder that works in steps."""
    written = decoder_source(schema_of(cls, version), version, classes_of(cls), stepped=True)
    decoder: DecoderSteps = compiled("decode", written, cls, version)
    STEPPED_DECODERS[cls, version] = decoder
    return decoder


def make_stepped_encoder(cls: type[Message], version: int) -> EncoderSteps:
    """Writes, compiles and keeps an encoder that works in steps."""
    written = encoder_source(schema_of(cls, version), version, classes_of(cls), stepped=True)
    encoder: EncoderSteps = compiled("encode", written, cls, version)
    STEPPED_ENCODERS[cls, version] = encoder
    return encoder


def compiled(name: str, written: tuple[str, dict[str, object]], cls: type[Message], version: int) -> Any:
    """The function of this name out of a source and its globals."""
    source, namespace = written
    exec(compile(source, f"<{name} {cls.NAME} version {version}>", "exec"), namespace)
    return namespace[name]


def schema_of(cls: type[Message], version: int) -> schema.MessageSchema:
    """The definition of a message that must have this version."""
    if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
        raise UnsupportedVersionError(
            f"{cls.NAME} has versions {cls.MIN_VERSION} to {cls.MAX_VERSION}, not version {version}"
        )
    return schema.message(cls.NAME)


def classes_of(cls: type[Message]) -> dict[str, type]:
    """The classes of a message and of the structs in it, by name."""
    module = vars(sys.modules[cls.__module__])
    return {name: value for name, value in module.items() if isinstance(value, type) and issubclass(value, Struct)}
