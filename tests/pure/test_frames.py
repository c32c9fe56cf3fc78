"""The wire format, and frames over real sockets."""

from __future__ import annotations

import asyncio
import itertools
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.api import PeerLost, Vector
from testbed.runtime.frames import HEADER, BadFrame, Head, pack, unpack
from testbed.runtime.transport import PORT, Transport, _InOrder
from testbed.spec.run import Tcp

TEXT = st.text(max_size=40)
META = st.dictionaries(TEXT, st.integers() | TEXT, max_size=3)


@given(TEXT, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), META, st.integers(0, 50))
def test_what_is_packed_is_unpacked(tag: str, version: int, sent: float, meta: dict[str, object], size: int) -> None:
    raw = pack(tag, version, sent, meta, np.zeros(size, np.float32))
    assert unpack(memoryview(raw)) == (Head(tag, version, sent, meta, 4 * size, len(raw) + 4 * size), len(raw))
    assert all(unpack(memoryview(raw)[:end]) is None for end in range(len(raw)))


def test_the_header_is_32_bytes_in_the_order_of_the_docstring() -> None:
    raw = pack("ab", 7, 1.5, None, np.zeros(3, np.float32))
    assert raw == b"wan1" + struct.pack("<HHqdq", 2, 0, 7, 1.5, 12) + b"ab" + bytes(14)
    assert HEADER.size == 32


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.1\r\n" + bytes(20), b"wan1" + struct.pack("<HHqdq", 0, 0, 0, 0.0, -4)])
def test_foreign_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(BadFrame):
        unpack(memoryview(raw))


@pytest.mark.parametrize("vector", [np.zeros(3), np.zeros((2, 2), np.float32), np.zeros(2, ">f4")])
def test_only_flat_float32_travels(vector: Vector) -> None:
    with pytest.raises(ValueError, match="flat float32"):
        pack("x", 0, 0.0, None, vector)


class Party:
    """A transport on loopback that remembers what came."""

    def __init__(self, name: str, addresses: dict[str, tuple[str, int]]) -> None:
        self.came: asyncio.Queue[tuple[str, Head, Vector]] = asyncio.Queue()
        self.lost: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.transport = Transport(
            name, addresses, Tcp(congestion="reno"),
            lambda *message: self.came.put_nowait(message), lambda *loss: self.lost.put_nowait(loss),
        )  # fmt: skip


@pytest.fixture
def addresses() -> dict[str, tuple[str, int]]:
    """Loopback addresses that no other test of this process uses: the port is always the same."""
    number = next(_PAIRS)
    return {"a": (f"127.77.{number}.1", PORT), "b": (f"127.77.{number}.2", PORT)}


_PAIRS = itertools.count(1)


def test_vectors_and_words_cross_whole_and_in_order(addresses: dict[str, tuple[str, int]]) -> None:
    sizes = [0, 1, 3, 16_000, 16_384, 1_000_003]

    async def talk() -> None:
        a, b = Party("a", addresses), Party("b", addresses)
        await b.transport.listen()
        vectors = [np.random.default_rng(n).random(n, np.float32) for n in sizes]
        sending = asyncio.gather(
            *(a.transport.send("b", pack("bulk", k, 0.5, None, v), v) for k, v in enumerate(vectors)),
            *(a.transport.send("b", pack("word", k, 0.5, {"k": k}, None), None) for k in range(5)),
        )
        bulk, words = [], []
        for _ in range(len(sizes) + 5):
            sender, head, vector = await b.came.get()
            assert sender == "a"
            (bulk if head.tag == "bulk" else words).append((head, vector))
        await sending
        assert [head.version for head, _ in bulk] == list(range(len(sizes)))
        assert all(got.tobytes() == sent.tobytes() for (_, got), sent in zip(bulk, vectors, strict=True))
        assert [head.meta["k"] for head, _ in words] == list(range(5))

    asyncio.run(asyncio.wait_for(talk(), 20))


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([50_000] * 6, id="always the same"),
        pytest.param([50_000, 50_000, 50_000, 7, 0, 7, 50_000, 50_000, 50_000], id="shorter, then longer"),
        pytest.param([50_000, 49_999] * 5, id="two sizes in turn"),
        pytest.param([50_000, 50_000, 400_000, 400_000, 400_000, 50_000], id="longer, then shorter"),
        pytest.param([300, 300, 300, 300, 5], id="small ones"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_no_frame_is_left_waiting(addresses: dict[str, str], sizes: list[int], at_once: bool) -> None:
    # A receiver waits for as many bytes as the last frames had; a shorter one must wake it all the same.
    async def talk() -> None:
        a, b = Party("a", addresses), Party("b", addresses)
        await b.transport.listen()
        sending = []
        for number, size in enumerate(sizes):
            vector = np.full(size, number, np.float32)
            sending.append(asyncio.ensure_future(a.transport.send("b", pack("x", number, 0, None, vector), vector)))
            if not at_once:
                _, head, got = await b.came.get()
                assert head.version == number and got.tobytes() == vector.tobytes()
        for number, size in enumerate(sizes if at_once else []):
            _, head, got = await b.came.get()
            assert head.version == number and got.tobytes() == np.full(size, number, np.float32).tobytes()
        await asyncio.gather(*sending)

    asyncio.run(asyncio.wait_for(talk(), 20))


def test_a_peer_that_nobody_is_raises_with_its_name(addresses: dict[str, tuple[str, int]]) -> None:
    async def call() -> None:
        await Party("a", addresses).transport.send("b", pack("x", 0, 0.0, None, None), None)

    with pytest.raises(PeerLost, match="b is lost") as caught:
        asyncio.run(asyncio.wait_for(call(), 20))
    assert caught.value.peer == "b"


def test_a_stranger_loses_its_connection_and_nothing_else_breaks(addresses: dict[str, tuple[str, int]]) -> None:
    async def talk() -> None:
        b = Party("b", addresses)
        await b.transport.listen()
        _, writer = await asyncio.open_connection(*addresses["b"])
        writer.write(b"GET / HTTP/1.1\r\n" + bytes(40))
        assert "not a frame" in (await b.lost.get())[1]
        writer.close()
        a = Party("a", addresses)
        await a.transport.send("b", pack("x", 3, 0.0, None, None), None)
        assert (await b.came.get())[1].version == 3

    asyncio.run(asyncio.wait_for(talk(), 20))


def test_the_end_of_a_peer_is_told_with_its_name(addresses: dict[str, tuple[str, int]]) -> None:
    async def talk() -> None:
        a, b = Party("a", addresses), Party("b", addresses)
        await b.transport.listen()
        await a.transport.connect("b")
        for ready in a.transport._outgoing.values():
            ready.result()._socket.close()
        assert (await b.lost.get())[0] == "a"

    asyncio.run(asyncio.wait_for(talk(), 20))


def test_a_later_connection_waits_for_the_end_of_those_before_it() -> None:
    came: list[int] = []
    vectors = _InOrder(lambda head, vector: came.append(head.version))

    def arrives(connection: int, version: int) -> None:
        found = unpack(memoryview(pack("x", version, 0.0, None, None)))
        assert found is not None
        vectors.came(connection, found[0], np.zeros(0, np.float32))

    arrives(1, 1)
    arrives(3, 5)
    arrives(2, 3)
    vectors.ended(2)
    arrives(1, 2)
    assert came == [1, 2]
    vectors.ended(1)
    assert came == [1, 2, 3, 5]
    arrives(3, 6)
    assert came == [1, 2, 3, 5, 6]
