"""The wire format: a fixed header, a tag, a little JSON when there is any, and the raw vector.

    magic 4 | tag length 2 | meta length 2 | version 8 | sent 8 | payload length 8 | tag | meta | payload

All little-endian. The sender is known from the connection, which opens with one frame of tag "hello".
Vectors travel as float32, never pickled.
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
HELLO = "hello"


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


def pack(tag: str, version: int, sent: float, meta: dict[str, Any] | None, vector: Vector | None) -> bytes:
    """Everything of a frame but the vector's own bytes.

    ValueError for a vector that is not flat little-endian float32, or a tag or meta over 65,535 bytes.
    """
    if vector is not None and (vector.dtype != np.dtype("<f4") or vector.ndim != 1):
        raise ValueError(f"a message carries a flat float32 vector, not {vector.dtype} of {vector.ndim} axes")
    name = tag.encode()
    extra = json.dumps(meta, separators=(",", ":")).encode() if meta else b""
    if len(name) > 0xFFFF or len(extra) > 0xFFFF:
        raise ValueError(f"tag and meta of a message hold at most 65,535 bytes each ({len(name)}, {len(extra)})")
    size = 0 if vector is None else vector.nbytes
    return HEADER.pack(MAGIC, len(name), len(extra), version, sent, size) + name + extra


def unpack(buffer: memoryview) -> tuple[Head, int] | None:
    """The head at the start of `buffer` and its length, or None when more bytes are needed.

    BadFrame when the bytes cannot be a frame.
    """
    if len(buffer) < HEADER.size:
        return None
    magic, tag, meta, version, sent, payload = HEADER.unpack_from(buffer)
    if magic != MAGIC or payload < 0 or payload % 4:
        raise BadFrame(f"not a frame: {bytes(buffer[: HEADER.size]).hex()}")
    length = HEADER.size + tag + meta
    if len(buffer) < length:
        return None
    name = bytes(buffer[HEADER.size : HEADER.size + tag]).decode()
    extra = bytes(buffer[HEADER.size + tag : length])
    return Head(name, version, sent, json.loads(extra) if extra else {}, payload), length
