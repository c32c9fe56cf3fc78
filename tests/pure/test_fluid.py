"""The flow model: each value follows from capacity, bytes and the definition of max-min fairness."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.engines.sim.fluid import Flow, Fluid

PORTS = st.lists(st.sampled_from([1.0, 2.0, 5.0, 10.0, 100.0]), min_size=1, max_size=5)


def test_a_flow_alone_takes_bytes_by_rate() -> None:
    fluid = Fluid([100.0, 25.0, math.inf])
    flow = fluid.start(3.0, [0, 1, 2], 50.0)
    assert fluid.rate(flow) == 25.0
    assert fluid.next_completion() == 5.0
    assert fluid.advance(5.0) == [flow]
    assert fluid.next_completion() == math.inf


def test_parking_lot() -> None:
    # One flow over both ports, one on each: the narrow port gives 2 and 2, the wide one what is left.
    fluid = Fluid([4.0, 10.0])
    both, first, second = fluid.start(0, [0, 1], 80), fluid.start(0, [0], 80), fluid.start(0, [1], 80)
    assert [fluid.rate(flow) for flow in (both, first, second)] == [2.0, 2.0, 8.0]


def test_the_rest_speeds_up_when_one_ends() -> None:
    fluid = Fluid([10.0])
    short, long = fluid.start(0, [0], 10), fluid.start(0, [0], 30)
    assert fluid.next_completion() == 2.0
    assert fluid.advance(2.0) == [short]
    assert fluid.next_completion() == pytest.approx(4.0)  # 20 bytes left at 10 bytes/s
    assert fluid.advance(4.0) == [long]


def test_a_change_elsewhere_touches_nobody_here() -> None:
    fluid = Fluid([10.0, 10.0])
    for _ in range(50):
        fluid.start(0, [0], 100)
    fluid.next_completion()
    before = fluid.settled
    fluid.start(0, [1], 100)
    fluid.next_completion()
    assert fluid.settled == before + 1


def test_a_port_without_capacity_stands_still_and_goes_on() -> None:
    fluid = Fluid([10.0])
    flow = fluid.start(0, [0], 100)
    fluid.next_completion()
    fluid.set_capacity(4.0, 0, 0.0)
    assert fluid.next_completion() == math.inf
    fluid.set_capacity(9.0, 0, 10.0)
    assert fluid.next_completion() == pytest.approx(15.0)
    assert fluid.advance(15.0) == [flow]


@given(PORTS, st.data())
def test_rates_are_max_min_fair_and_work_is_conserved(capacities: list[float], data: st.DataObject) -> None:
    fluid = Fluid(capacities)
    alive: dict[Flow, list[int]] = {}
    sizes: dict[Flow, float] = {}
    delivered, now = 0.0, 0.0
    for _ in range(data.draw(st.integers(1, 12))):
        if alive and data.draw(st.booleans()):
            due = fluid.next_completion()
            rates = {flow: fluid.rate(flow) for flow in alive}
            delivered += sum(rate * (due - now) for rate in rates.values())
            now = due
            for flow in fluid.advance(now):
                del alive[flow]
        else:
            path = data.draw(st.lists(st.integers(0, len(capacities) - 1), min_size=1, max_size=3, unique=True))
            size = float(data.draw(st.integers(1, 1000)))
            flow = fluid.start(now, path, size)
            alive[flow], sizes[flow] = path, size
        check_max_min(fluid, capacities, alive)
    while alive:
        due = fluid.next_completion()
        assert due < math.inf
        delivered += sum(fluid.rate(flow) * (due - now) for flow in alive)
        now = due
        for flow in fluid.advance(now):
            del alive[flow]
    assert delivered == pytest.approx(sum(sizes.values()), rel=1e-6)


def check_max_min(fluid: Fluid, capacities: list[float], alive: dict[Flow, list[int]]) -> None:
    """No port is overfull, and each flow crosses a full port on which nobody is faster."""
    rates = {flow: fluid.rate(flow) for flow in alive}
    used = [sum(rates[f] for f, path in alive.items() if port in path) for port in range(len(capacities))]
    assert all(u <= c * (1 + 1e-9) for u, c in zip(used, capacities, strict=True))
    for flow, path in alive.items():
        assert any(
            used[port] >= capacities[port] * (1 - 1e-9)
            and rates[flow] >= max(rates[f] for f, other in alive.items() if port in other) * (1 - 1e-9)
            for port in path
        )
