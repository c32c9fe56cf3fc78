"""How many bytes a connection may have under way: what of TCP decides how fast messages leave.

Pure: times are passed in. Bytes leave in rounds. A round begins with its first byte, lasts until that byte's
acknowledgement is back, and holds a window of bytes; what is acknowledged lets the window grow.
"""

from __future__ import annotations

import math

SEGMENT, FRAME = 1448, 1514
"""bytes of payload in a full TCP segment with timestamps, and of its Ethernet frame."""
FIRST_WINDOW = 10 * SEGMENT
"""bytes; RFC 6928."""
SMALLEST_TIMEOUT = 0.2
"""seconds; Linux's minimum of the retransmission timeout, which comes on top of the round trip."""
HYSTART_WINDOW = 16 * SEGMENT
"""bytes; below it CUBIC does not heed delays."""
HYSTART_LEAST, HYSTART_MOST = 0.004, 0.016
"""seconds; by an eighth of the round trip, within these bounds, must a round be late to end slow start."""
HYSTART_SAMPLES = 8 * 5 * SEGMENT
"""bytes; acknowledgements that must be late, by the segments that one acknowledges where they travel in bundles."""
CUBIC_GROWTH = 0.4
"""segments/s^3; RFC 9438, C."""
FRIENDLY_GROWTH = 3 * (1 - 0.7) / (1 + 0.7)
"""segments per round trip; RFC 9438, alpha: what CUBIC grows by at least."""


class Window:
    """The sending side of one connection. Congestion controls other than CUBIC never leave slow start early."""

    def __init__(self, round_trip: float, pipe: float, congestion: str, restart: bool) -> None:
        """`round_trip` in seconds without queues; `pipe` in bytes is what fits under way and into the queue."""
        self.size = float(FIRST_WINDOW)
        """bytes that may be under way."""
        self.begun = -math.inf
        """when the round began"""
        self.ahead = 0.0
        """seconds that the round's bytes stand behind what others have in the queue."""
        self.late = 0.0
        """seconds that the first acknowledgement stands in the queues of its way back."""
        self.full = False
        """Whether acknowledgements come as fast as bytes leave, so that nothing waits for the round's end."""
        self._used = self.size
        self._alone = True
        """Whether nothing was under way when the round began."""
        self._threshold = math.inf
        """bytes; slow start ends here"""
        self._since = 0.0
        """seconds of rounds that were used up since slow start ended"""
        self._origin = 0.0
        """bytes; the window where slow start ended"""
        self._round_trip, self._pipe = round_trip, max(FIRST_WINDOW, pipe)
        self._cubic, self._restart = congestion == "cubic", restart

    @property
    def room(self) -> float:
        """Bytes that may still leave in this round."""
        return max(0.0, self.size - self._used)

    @property
    def back(self) -> float:
        """When the round's first acknowledgement is back, as far as is known."""
        return self.begun + self.ahead + self._round_trip + self.late

    def use(self, size: float) -> None:
        """That many bytes leave."""
        self._used += size

    def begin(self, now: float, ahead: float, full: bool) -> None:
        """A round begins. `ahead` is what stands in the queue before its bytes, in seconds."""
        self._alone = self.begun == -math.inf
        self.begun, self.ahead, self.late, self.full = now, ahead, 0.0, full
        self._used = 0.0

    def resume(self, now: float, last_used: float) -> None:
        """A message begins; the last byte of the one before it left at `last_used`.

        A round whose first acknowledgement is back is over. After a while without a byte the window is halved
        for each timeout that has passed (RFC 2861).
        """
        if now < self.back:
            return
        if self.begun > -math.inf:
            self.acknowledged()
        self.begun, self._used = -math.inf, self.size
        timeout = self._round_trip + SMALLEST_TIMEOUT
        idle = now - last_used - self._round_trip
        if self._restart and idle > timeout and self.size > FIRST_WINDOW:
            self._threshold = max(self._threshold, 0.75 * self.size)
            self.size = max(FIRST_WINDOW, self.size / 2 ** min(60, int(idle / timeout)))

    def acknowledged(self) -> None:
        """The round's bytes are acknowledged."""
        late = self.ahead + self.late
        bound = min(max(self._round_trip / 8, HYSTART_LEAST), HYSTART_MOST)
        if self._cubic and self.size >= HYSTART_WINDOW and late > bound:
            self._threshold = min(self._threshold, self.size + HYSTART_SAMPLES)
        if self.size < self._threshold:
            grown = self.size + self._used
            if self._alone:  # what was never under way together says nothing about twice as much
                grown = max(self.size, min(grown, 2 * self._used))
            self.size = min(grown, self._threshold, self._pipe)
        elif self._used >= self.size:
            self.size = min(self.size + self._avoiding(late), self._pipe)

    def _avoiding(self, late: float) -> float:
        """Bytes that a round adds after slow start. What a pause has taken from CUBIC's curve is soon made up for."""
        if not self._cubic:
            return SEGMENT
        if self._since == 0:
            self._origin = self.size
        self._since += self._round_trip + late
        missing = self._origin + SEGMENT * CUBIC_GROWTH * self._since**3 - self.size
        return max(SEGMENT * FRIENDLY_GROWTH, min(missing, self.size / 2))
