"""The TLS transport: OpenSSL between two memory buffers (ssl.MemoryBIO) that see little more than a record at a time.

Receiving: what the socket has goes into OpenSSL in pieces of a record, and comes out decrypted into the reader's own
buffer. No more is asked of the socket than the reader has room for, so hardly anything stays behind in memory: a buffer
of OpenSSL never shrinks, and an idle connection shall own little.

Sending: small chunks are joined, since each record costs a header, a tag and a call; each record is taken out of
OpenSSL at once, and what the socket does not take waits as `unsent`, SEALED_MAX_BYTES at most. While there is some,
nothing more is taken, so the writer waits as it does for a full socket.

The handshake is stepped in threads (`server.handshakes`). While a step runs, nobody else touches the connection: it is
`stepping`, its reading paused, and `on_step` says on the loop when it may go on.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.client.tls import reason_of
from penstock.log.disk import Buffer
from penstock.server.limits import (
    HANDSHAKE_MAX_BYTES,
    JOINED_CHUNK_MAX_BYTES,
    RECORD_BYTES,
    SEALED_MAX_BYTES,
    SEND_CHUNKS_MAX,
)
from penstock.server.tls_records import Records
from penstock.server.transport import nothing

if TYPE_CHECKING:
    import socket

    from penstock.server.handshakes import Handshakes

LEAST_RECEIVED_BYTES = 1024
"""Asked of the socket even if the reader has less room."""
HANDSHAKE_PIECE_BYTES = 2048
"""Asked of the socket at once during the handshake: what lies behind its last message is not counted as records."""
HANDSHAKE_RECORD, ALERT_RECORD = 0x16, 0x15


class TlsTransport:
    """One end of a TLS connection. See the module's head.

    Args:
        sock: connected, not blocking. handshakes: where steps run.
        server_host: None on the server's side; else the name that the other side's certificate must have.

    Attributes:
        certificate: the other side's (DER), once the handshake is over; None if it showed none.
        stepping: a step of the handshake runs in a thread. on_step: called on the loop when one has ended.
    """

    __slots__ = (
        "_ended", "_handshakes", "_incoming", "_object", "_outcome", "_outgoing", "_over", "_received_bytes",
        "_records", "_server_side", "_socket", "_unsent", "_unsent_bytes", "_wants_bytes", "certificate", "fileno",
        "on_step", "ready", "stepping",
    )  # fmt: skip

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, handshakes: Handshakes, server_host: str | None = None
    ) -> None:
        self.fileno = sock.fileno
        self.ready = False
        self.stepping = False
        self.certificate: bytes | None = None
        self.on_step: Callable[[], None] = nothing
        self._socket = sock
        self._handshakes = handshakes
        self._server_side = server_host is None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, self._server_side, server_host)
        self._unsent: deque[Buffer] = deque()
        self._unsent_bytes = 0
        self._received_bytes = 0
        self._records = Records()
        self._wants_bytes = self._server_side
        self._outcome: BaseException | None = None
        self._over = False
        self._ended = False

    # The handshake

    def shake_hands(self) -> None:
        """Goes on with the handshake. BlockingIOError: not now; OSError: it has failed, and the sentence says why."""
        if self.stepping:
            raise BlockingIOError
        outcome, self._outcome = self._outcome, None
        if outcome is not None:
            self._failed(outcome)
        if self._over:
            self.ready = True
            self._records.begin()
            self.on_step = nothing
            return
        if self._unsent:
            self.push()
        if self._wants_bytes:
            self._receive_handshake()
        self.stepping = True
        try:
            self._handshakes.submit(self._step, self._stepped)
        except BaseException:
            self.stepping = False
            raise
        raise BlockingIOError

    def _receive_handshake(self) -> None:
        scratch = memoryview(self._handshakes.scratch)[:HANDSHAKE_PIECE_BYTES]
        size_bytes = self._socket.recv_into(scratch)
        if not size_bytes:
            raise ConnectionError("the other side closed the connection during the handshake")
        if not self._received_bytes and scratch[0] not in (HANDSHAKE_RECORD, ALERT_RECORD):
            raise ConnectionError("no TLS came: the other side may speak without it, and this is a listener with TLS")
        self._received_bytes += size_bytes
        if self._received_bytes > HANDSHAKE_MAX_BYTES:
            raise ConnectionError(f"the handshake has more than {HANDSHAKE_MAX_BYTES} bytes")
        for piece in self._records.pieces(scratch[:size_bytes]):
            self._incoming.write(piece)

    def _step(self) -> BaseException | None:
        """Runs in a thread. What goes wrong is returned; None means that the handshake is over."""
        try:
            self._object.do_handshake()
            self.certificate = self._object.getpeercert(binary_form=True)
        except (ssl.SSLError, ssl.CertificateError, ValueError) as error:
            return error
        return None

    def _stepped(self, outcome: BaseException | None) -> None:
        """On the loop: a step has ended."""
        self.stepping = False
        if self._socket.fileno() < 0:  # closed meanwhile
            return
        self._collect()
        try:
            self.push()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            outcome = outcome if isinstance(outcome, ssl.SSLError) and not wants_more(outcome) else error
        if outcome is None:
            self._over = True
            self._wants_bytes = not self._incoming.pending
        elif isinstance(outcome, ssl.SSLWantReadError):
            self._wants_bytes = True
        else:
            self._outcome = outcome
        self.on_step()

    def _failed(self, outcome: BaseException) -> None:
        if isinstance(outcome, ssl.SSLError):
            raise ConnectionError(sentence_of(outcome)) from None
        raise outcome

    # Receiving

    @property
    def waiting(self) -> bool:
        """Whether there may be bytes to read although the socket need not be readable."""
        return self.ready and (self._ended or not self._wants_bytes)  # an end may lie behind bytes that were read

    def receive_into(self, buffer: Any) -> int:
        """Fills a buffer with decrypted bytes; 0 if the other side has closed."""
        view = memoryview(buffer)
        filled = self._decrypt_into(view)
        room = len(view) - filled
        if not room or not self._wants_bytes or self._ended:
            return filled
        try:
            scratch = memoryview(self._handshakes.scratch)[: max(room, LEAST_RECEIVED_BYTES)]
            size_bytes = self._socket.recv_into(scratch)
        except (BlockingIOError, InterruptedError):
            if filled:
                return filled
            raise
        if not size_bytes:
            self._ended = True  # without a farewell, as many clients do
            return filled
        arrived = scratch[:size_bytes]
        for piece in self._records.pieces(arrived):
            self._incoming.write(piece)
            self._wants_bytes = False
            filled += self._decrypt_into(view[filled:])
            if self._wants_bytes:
                self._records.look()
        if not filled and not self._ended:
            raise BlockingIOError
        return filled

    def receive_into_two(self, first: Any, second: Any) -> int:
        """Fills a buffer, and then a second one; returns how many bytes in both."""
        filled = self.receive_into(first)
        if filled < len(first):
            return filled
        try:
            return filled + self.receive_into(second)
        except (BlockingIOError, InterruptedError):
            return filled

    def _decrypt_into(self, view: memoryview) -> int:
        """Decrypts what has arrived, as far as there is room; notes whether more must arrive first."""
        filled, reads, size_bytes = 0, 0, len(view)
        read: Callable[[int, memoryview], Any] = self._object.read  # given a buffer, it returns how many bytes
        while filled < size_bytes and not self._wants_bytes and not self._ended:
            try:
                got = read(size_bytes - filled, view[filled:])
            except ssl.SSLWantReadError:
                self._wants_bytes = True
            except ssl.SSLZeroReturnError:
                self._ended = self._wants_bytes = True
            except ssl.SSLError as error:
                self._send_alone()
                raise ConnectionError(sentence_of(error)) from None
            else:
                filled += got
                reads += 1
                if not got:  # the other side's farewell
                    self._ended = self._wants_bytes = True
        self._records.read(reads)
        if self._outgoing.pending:
            self._answer_by_itself()
        return filled

    def _answer_by_itself(self) -> None:
        """Sends what OpenSSL answers to the other side without us: new keys, no renegotiation.

        Who asks for that again and again, and reads no answers, is cut off. Raises ConnectionError.
        """
        self._send_alone()
        if self._unsent_bytes > 2 * SEALED_MAX_BYTES or len(self._unsent) > SEND_CHUNKS_MAX:
            raise ConnectionError("the other side asks for new keys again and again, and does not read the answers")

    # Sending

    @property
    def unsent(self) -> bool:
        """Whether encrypted bytes have not been sent."""
        return bool(self._unsent)

    def send(self, data: Buffer) -> int:
        """Encrypts bytes and sends what the socket takes; returns how many were encrypted."""
        return self.send_many((data,))

    def send_many(self, buffers: Iterable[Buffer]) -> int:
        """Encrypts the bytes of several buffers as long as the socket takes them; returns how many were encrypted."""
        if self._unsent and not self.push():
            raise BlockingIOError
        taken = 0
        for piece in joined(buffers):
            view = memoryview(piece)
            for start in range(0, len(view), RECORD_BYTES):
                taken += self._object.write(view[start : start + RECORD_BYTES])
                self._collect()
                if self._unsent_bytes >= SEALED_MAX_BYTES and not self.push():
                    return taken
        self.push()
        return taken

    def push(self) -> bool:
        """Sends encrypted bytes; returns whether all of them have left."""
        unsent = self._unsent
        while unsent:
            try:
                sent_bytes = self._socket.sendmsg(unsent)
            except (BlockingIOError, InterruptedError):
                return False
            self._unsent_bytes -= sent_bytes
            while sent_bytes:
                first = unsent[0]
                if len(first) > sent_bytes:
                    unsent[0] = memoryview(first)[sent_bytes:]
                    break
                sent_bytes -= len(first)
                unsent.popleft()
        return True

    def _collect(self) -> None:
        if self._outgoing.pending:
            record = self._outgoing.read()
            self._unsent_bytes += len(record)
            self._unsent.append(record)

    def _send_alone(self) -> None:
        """Sends what OpenSSL has made by itself, such as an alert, as far as the socket takes it."""
        self._collect()
        try:
            self.push()
        except OSError:
            return

    def close(self) -> None:
        """Says that no more comes, if the socket takes that, and closes."""
        if self.ready and not self.stepping and not self._unsent:
            with suppress(OSError, ValueError):  # the other side's farewell is not waited for
                self._object.unwrap()
            self._send_alone()
        self._unsent.clear()
        self.on_step = nothing
        self._socket.close()


def joined(buffers: Iterable[Buffer]) -> Iterable[Buffer]:
    """The same bytes, small buffers joined to up to a record."""
    gathered: list[Buffer] = []
    gathered_bytes = 0
    for each in buffers:
        size_bytes = len(each)
        if gathered and (size_bytes > JOINED_CHUNK_MAX_BYTES or gathered_bytes + size_bytes > RECORD_BYTES):
            if size_bytes > JOINED_CHUNK_MAX_BYTES and gathered_bytes < RECORD_BYTES:
                room_bytes = RECORD_BYTES - gathered_bytes  # the small ones go with the beginning of the large one
                view = memoryview(each)
                yield b"".join([*gathered, view[:room_bytes]])
                if size_bytes > room_bytes:
                    yield view[room_bytes:]
                gathered, gathered_bytes = [], 0
                continue
            yield b"".join(gathered)
            gathered, gathered_bytes = [], 0
        if size_bytes > JOINED_CHUNK_MAX_BYTES:
            yield each
        else:
            gathered.append(each)
            gathered_bytes += size_bytes
    if gathered:
        yield gathered[0] if len(gathered) == 1 else b"".join(gathered)


def wants_more(error: BaseException) -> bool:
    """Whether a step only waits for bytes."""
    return isinstance(error, ssl.SSLWantReadError | ssl.SSLWantWriteError)


def sentence_of(error: ssl.SSLError) -> str:
    """What OpenSSL found, in words for a log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate was refused: {error.verify_message.lower().rstrip('.')}"
    reason = reason_of(error)
    return REASONS.get(reason, reason)


REASONS = {
    "http request": "the other side speaks HTTP, and this is a listener with TLS",
    "wrong version number": "no TLS came, or a version that is not spoken",
    "peer did not return a certificate": "the client showed no certificate (ssl.client.auth = required)",
    "no shared cipher": "both sides have no cipher suite in common",
    "unsupported protocol": "both sides have no version of TLS in common",
    "sslv3 alert certificate unknown": "the other side refused our certificate",
    "tlsv1 alert unknown ca": "the other side does not trust our certificate",
    "sslv3 alert bad certificate": "the other side refused our certificate",
}
