"""How connections behave, as a file says it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from testbed.spec.run import Tcp
from testbed.spec.section import Section
from testbed.spec.units import Size


class TcpSection(Section):
    """Connections. The first two default to what Linux does, the buffer to what `Tcp` says."""

    congestion: Annotated[Literal["cubic", "bbr", "reno"], Field(examples=["cubic"])] = "cubic"
    slow_start_after_idle: Annotated[bool, Field(examples=["false"])] = True
    buffer: Annotated[Size | None, Field(examples=["4 MB"])] = None

    def tcp(self) -> Tcp:
        """For a run."""
        return Tcp(self.congestion, self.slow_start_after_idle, self.buffer)
