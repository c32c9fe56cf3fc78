"""The mailbox: order, waiting, loss, and nothing dropped when somebody gives up."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from testbed.api import Message, PeerLost
from testbed.runtime.mailbox import Mailbox


def message(sender: str, tag: str = "t", version: int = 0) -> Message:
    return Message(sender, tag, version, np.empty(0, np.float32), {})


def test_messages_are_taken_in_the_order_of_their_arrival() -> None:
    box = Mailbox()
    for number, sender in enumerate(["a", "b", "a"]):
        box.put(message(sender, version=number))
    box.put(message("a", tag="other"))
    taken = [box.take("t", "a"), box.take("t", None), box.take("t", None), box.take("t", None)]
    assert [one.version if one else None for one in taken] == [0, 1, 2, None]


def test_whoever_waits_gets_the_message_that_fits() -> None:
    async def wait() -> None:
        box = Mailbox()
        for_b, for_anyone = asyncio.ensure_future(box.wait("t", "b")), asyncio.ensure_future(box.wait("t", None))
        await asyncio.sleep(0)
        box.put(message("a", version=1))
        box.put(message("b", version=2))
        assert ((await for_anyone).version, (await for_b).version) == (1, 2)

    asyncio.run(wait())


def test_a_lost_peer_is_told_to_those_who_wait_for_it_and_its_messages_stay() -> None:
    async def wait() -> None:
        box = Mailbox()
        waiting = asyncio.ensure_future(box.wait("t", "a"))
        box.put(message("a", tag="other"))
        await asyncio.sleep(0)
        box.lose("a", "gone")
        with pytest.raises(PeerLost, match="a is lost: gone"):
            await waiting
        assert box.take("other", "a") is not None
        with pytest.raises(PeerLost):
            box.take("t", "a")
        assert box.take("t", "b") is None

    asyncio.run(wait())


def test_a_message_that_comes_as_the_deadline_passes_stays_unread() -> None:
    async def wait() -> None:
        box = Mailbox()
        waiting = asyncio.ensure_future(box.wait("t", "a"))
        await asyncio.sleep(0)
        box.put(message("a", version=7))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        kept = box.take("t", "a")
        assert kept is not None and kept.version == 7

    asyncio.run(wait())


def test_what_is_put_back_comes_first() -> None:
    box = Mailbox()
    box.put(message("c", version=3))
    box.put_back([message("a", version=1), message("b", version=2)])
    assert [one.version for one in (box.take("t", None), box.take("t", None), box.take("t", None)) if one] == [1, 2, 3]


def test_what_somebody_gives_up_goes_to_the_next_who_waits() -> None:
    async def wait() -> None:
        box = Mailbox()
        first, second = asyncio.ensure_future(box.wait("t", "a")), asyncio.ensure_future(box.wait("t", None))
        await asyncio.sleep(0)
        box.put(message("a", version=1))  # for the first, which is cancelled before it wakes
        first.cancel()
        assert (await second).version == 1
        third = asyncio.ensure_future(box.wait("t", "a"))
        await asyncio.sleep(0)
        box.put_back([message("b", version=2), message("a", version=3)])
        assert (await third).version == 3
        left = box.take("t", None)
        assert left is not None and left.version == 2 and box.take("t", None) is None

    asyncio.run(wait())


def test_who_waits_for_several_hears_of_each_ones_end_unless_its_message_is_here() -> None:
    async def wait() -> None:
        box = Mailbox()
        box.put(message("b"))
        waiting = asyncio.ensure_future(box.wait("t", "a", others=["b", "c"]))
        await asyncio.sleep(0)
        box.lose("b", "gone")
        await asyncio.sleep(0)
        assert not waiting.done()
        box.lose("c", "gone")
        with pytest.raises(PeerLost, match="c is lost"):
            await waiting
        with pytest.raises(PeerLost, match="c is lost"):
            await box.wait("t", "a", others=["b", "c"])

    asyncio.run(wait())
