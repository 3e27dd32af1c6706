"""What a step of a program and its worker say to each other, over the socket $ONCE_SOCKET.

    step:    begin                                             asked      end | fail | hold
    worker:        run | ask | remembered | over | refused           run ..           done | over

A frame is its size in 4 bytes, low ones first, and fields. A field is varint(number * 2 + kind) and
a value: a varint (kind 0), or a size and bytes (kind 1). One connection carries one step.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Optional

VERSION = 1
BEGIN, ASKED, END, FAIL, HOLD = 1, 2, 3, 4, 5
RUN, REMEMBERED, ASK, DONE, OVER, REFUSED = 16, 17, 18, 19, 20, 21
OLD_LIMIT = 1 << 20  # of a worker that does not say its limit
LONGEST_PATH = 107  # of a socket, in bytes

_VERSION, _KIND, _NAME, _POLICY, _KEY, _BYTES, _CUT, _LIMIT, _OVERSIZE = range(1, 10)


class Garbled(ConnectionError):
    """The worker's frame cannot be read."""


@dataclass
class Message:
    kind: int
    name: str = ""
    policy: str = ""
    key: str = ""
    bytes: bytes = b""
    cut: bool = False
    limit: int = OLD_LIMIT
    oversize: int = 0


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field * 2) + _varint(value)


def _text(field: int, value: bytes) -> bytes:
    return _varint(field * 2 + 1) + _varint(len(value)) + value if value else b""


def encode(message: Message) -> bytes:
    """A frame of a step."""
    content = _number(_VERSION, VERSION) + _number(_KIND, message.kind)
    content += _text(_NAME, message.name.encode()) + _text(_POLICY, message.policy.encode())
    content += _text(_BYTES, message.bytes)
    if message.oversize:
        content += _number(_OVERSIZE, message.oversize)
    return len(content).to_bytes(4, "little") + content


def decode(content: bytes) -> Message:
    """The content of a frame of the worker. Fields that are not known are passed over."""
    message = Message(0)
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(content) or shift > 63:
                raise Garbled("the worker's answer cannot be read")
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(content):
        field, is_bytes = divmod(varint(), 2)
        value = varint()
        if not is_bytes:
            if field == _VERSION and value != VERSION:
                raise Garbled("the worker and this client are of different versions")
            _set_number(message, field, value)
            continue
        if value > len(content) - at:
            raise Garbled("the worker's answer cannot be read")
        piece = content[at : at + value]
        at += value
        if field == _KEY:
            message.key = piece.decode()
        elif field == _BYTES:
            message.bytes = piece
    return message


def _set_number(message: Message, field: int, value: int) -> None:
    if field == _KIND:
        message.kind = value
    elif field == _CUT:
        message.cut = value != 0
    elif field == _LIMIT:
        message.limit = value


class Channel:
    """The connection of one step. Raises OSError if the worker is gone."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder: Optional[int] = None
        try:
            if len(os.fsencode(path)) > LONGEST_PATH:  # then the folder has a shorter name
                folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
                path = f"/proc/self/fd/{folder}/{os.path.basename(path)}"
            self._socket.connect(path)
        except BaseException:
            self._socket.close()
            raise
        finally:
            if folder is not None:
                os.close(folder)

    def ask(self, message: Message) -> Message:
        """Sends a message and returns the worker's answer."""
        self._socket.sendall(encode(message))
        return decode(self._read(int.from_bytes(self._read(4), "little")))

    def _read(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size > 0:
            piece = self._socket.recv(min(size, 1 << 16))
            if not piece:
                raise ConnectionError("the worker is gone")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        self._socket.close()
