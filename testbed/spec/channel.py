"""What one direction of a link, or a LAN, looks like in a file."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from testbed.network.model import Channel
from testbed.spec.faults import Place, refusal, refusals
from testbed.spec.section import Section
from testbed.spec.units import DURATION, RATE, SIZE, Duration, Percent, Rate, Size, written

FULL_FRAME = 1514
"""bytes; a queue that cannot hold one lets nothing through."""
_SAMPLES = {
    "rate": f'"rate: {RATE.example}"',
    "delay": f'"delay: {DURATION.example}" (one-way) or "rtt: 40 ms"',
}


class ChannelSection(Section):
    """One direction. A key that is not written keeps the value of what it overrides."""

    rate: Annotated[Rate | None, Field(examples=["100 Mbit/s"])] = None
    delay: Annotated[Duration | None, Field(examples=["20 ms"])] = None
    """One-way."""
    loss: Annotated[Percent, Field(examples=["0.1 %"])] = 0.0
    jitter: Annotated[Duration, Field(examples=["1 ms"])] = 0.0
    queue: Annotated[Size | None, Field(examples=["64 kB"])] = None

    def values(self) -> dict[str, float]:
        """The keys that were written, as arguments of a Channel."""
        written_down = self.model_fields_set & Channel.__dataclass_fields__.keys()
        return {key: getattr(self, key) for key in sorted(written_down)}

    def channel(self) -> Channel:
        """The direction by itself; the pydantic refusal says what does not fit together."""
        return built(self.values())


class LanSection(ChannelSection):
    """Each direction between a host and its site's router."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self.channel()
        return self


def built(values: dict[str, float], *place: str) -> Channel:
    """A Channel whose values fit together; the refusal names the key, below `place`."""
    channel = Channel(**values)  # type: ignore[arg-type]
    findings: list[tuple[Place, str]] = []
    if channel.jitter and not channel.delay:
        size = written(channel.jitter, DURATION)
        findings.append(((*place, "jitter"), f'{size} of jitter need a delay to vary; add "delay: 20 ms".'))
    if channel.queue is not None and channel.rate is None:
        findings.append(((*place, "queue"), 'a queue needs a rate that empties it; add "rate: 100 Mbit/s".'))
    if channel.queue is not None and channel.queue < FULL_FRAME:
        size = written(channel.queue, SIZE)
        findings.append(((*place, "queue"), f"{size} hold no full frame; give {FULL_FRAME} B or more."))
    if findings:
        raise refusals(findings)
    return channel


class TwoWay(ChannelSection):
    """A link: values for both directions, and keys of a subclass that override one of them."""

    rtt: Annotated[Duration | None, Field(examples=["40 ms"])] = None
    """Round trip, in place of `delay`: half of it each way."""

    def pair(self, first: str, second: str) -> tuple[Channel, Channel]:
        """Both directions; `first` and `second` are the keys that override them."""
        both = self.values()
        if self.rtt is not None:
            if "delay" in both:
                raise refusal("give a delay (one-way) or a round trip, not both; remove one.", "rtt")
            both["delay"] = self.rtt / 2
        return self._direction(both, first), self._direction(both, second)

    def _direction(self, both: dict[str, float], key: str) -> Channel:
        own: ChannelSection | None = getattr(self, key)
        override = own.values() if own else {}
        if self.rtt is not None and "delay" in override:
            message = "stands beside an rtt; give each direction its delay and remove the rtt."
            raise refusal(message, key, "delay")
        values = both | override
        missing = [name for name in ("rate", "delay") if name not in values]
        if missing:
            place = (key,) if own else ()
            raise refusals(((*place, name), f"is missing; write it like {_SAMPLES[name]}.") for name in missing)
        faulty = (key,) if own and {"jitter", "queue"} & override.keys() else ()
        return built(values, *faulty)


class UpDownLink(TwoWay):
    """A link of a preset: `up` leads towards the server."""

    up: ChannelSection | None = None
    down: ChannelSection | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self.directions()
        return self

    def directions(self) -> tuple[Channel, Channel]:
        """Up, down."""
        return self.pair("up", "down")


class JoiningLink(TwoWay):
    """A link between two named sites: `forward` leads from the first to the second."""

    between: Annotated[tuple[str, str], Field(strict=False, examples=["[paris, tokyo]"])]
    forward: ChannelSection | None = None
    backward: ChannelSection | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self.directions()
        return self

    def directions(self) -> tuple[Channel, Channel]:
        """Forward, backward."""
        return self.pair("forward", "backward")
