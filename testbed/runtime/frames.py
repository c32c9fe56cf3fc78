"""The wire format: a fixed header, a tag, a little JSON when there is any, and the raw vector.

    magic 4 | tag length 2 | meta length 2 | version 8 | sent 8 | payload length 8 | tag | meta | gap | payload

All little-endian. The gap of 0 to 15 zero bytes lets the payload start at a multiple of 16, so that a
frame that was received in one piece need not be copied. The sender is known from the connection, which
opens with a frame of its own. Vectors travel as float32, never pickled.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from testbed.api import Vector

HEADER = struct.Struct("<4sHHqdq")
MAGIC = b"wan1"
ALIGNMENT = 16
LARGEST_HEAD = 32_768
"""bytes of tag and meta together."""
HELLO = "\0hello"
"""The first frame of a connection: who speaks, and its number among those for vectors, or 0."""
SHORT = "\0short"
"""Announces that frame number `version` of the connection for vectors that `meta` numbers is short."""


class BadFrame(Exception):
    """The bytes are not a frame of ours."""


@dataclass(frozen=True)
class Head:
    """A frame's header, tag and meta."""

    tag: str
    version: int
    sent: float
    """the sender's clock, seconds since training began."""
    meta: dict[str, Any]
    payload: int
    """bytes of the vector that follows."""
    size: int
    """bytes of the whole frame."""


def pack(tag: str, version: int, sent: float, meta: dict[str, Any] | None, vector: Vector | None) -> bytes:
    """Everything of a frame but the vector's own bytes.

    ValueError for a vector that is not flat little-endian float32, and when tag and meta are too long.
    """
    if vector is not None and (vector.dtype != np.dtype("<f4") or vector.ndim != 1):
        raise ValueError(f"a message carries a flat float32 vector, not {vector.dtype} of {vector.ndim} axes")
    name = tag.encode()
    extra = json.dumps(meta, separators=(",", ":")).encode() if meta else b""
    if len(name) + len(extra) > LARGEST_HEAD:
        raise ValueError(f"tag and meta hold {len(name) + len(extra)} bytes; {LARGEST_HEAD} fit: send a vector")
    size = 0 if vector is None else vector.nbytes
    head = HEADER.pack(MAGIC, len(name), len(extra), version, sent, size) + name + extra
    return head.ljust(_aligned(len(head)), b"\0")


def _aligned(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


def unpack(buffer: memoryview) -> tuple[Head, int] | None:
    """The head at the start of `buffer` and its length, or None when more bytes are needed.

    BadFrame when the bytes cannot be a frame.
    """
    if len(buffer) < HEADER.size:
        return None
    magic, tag, meta, version, sent, payload = HEADER.unpack_from(buffer)
    if magic != MAGIC or payload < 0 or payload % 4 or tag + meta > LARGEST_HEAD:
        raise BadFrame(f"not a frame: {bytes(buffer[: HEADER.size]).hex()}")
    end = HEADER.size + tag + meta
    length = _aligned(end)
    if len(buffer) < length:
        return None
    name = bytes(buffer[HEADER.size : HEADER.size + tag]).decode()
    extra = bytes(buffer[HEADER.size + tag : end])
    return Head(name, version, sent, json.loads(extra) if extra else {}, payload, length + payload), length
