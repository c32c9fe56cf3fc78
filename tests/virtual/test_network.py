"""The built network against its file, with real packets in the guest."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.network.model import Network
from testbed.network.plan import plan
from testbed.spec.run import Tcp, to_plain

from . import networks
from .conftest import RunInGuest

HERE = Path(__file__).parent
TRIP = 1e-4
"""seconds by which a round trip may differ from the file."""
GOODPUT = 0.01
"""share by which a bulk transfer may differ from 1448/1514 of the slowest rate."""


def planned(folder: Path, network: Network) -> str:
    file = folder / "plan.json"
    file.write_text(json.dumps(to_plain(plan(network, Tcp()))))
    return str(file)


@pytest.mark.parametrize("make", [networks.star, networks.line])
def test_round_trips_and_goodput_are_those_of_the_file(run_in_guest: RunInGuest, tmp_path: Path, make: Any) -> None:
    network: Network = make()
    found = run_in_guest(HERE / "guest_measure.py", planned(tmp_path, network))
    count = len(network.hosts)
    assert len(found["trips"]) == count * (count - 1)
    for trip in found["trips"]:
        assert trip["measured"] == pytest.approx(trip["expected"], abs=TRIP)
    limits = {flow["bottleneck"] for flow in found["flows"]}
    assert limits >= {f"{link.a}>{link.b}" for link in network.links}
    for flow in found["flows"]:
        assert flow["measured"] == pytest.approx(flow["expected"], rel=GOODPUT), flow
    assert found["disagreements"] == []
    for name in limits:
        assert found["counters"][name]["bytes"] > 3_000_000
        assert found["counters"][name]["drops"] == 0


def test_loss_and_jitter_have_the_distribution_of_the_file(run_in_guest: RunInGuest, tmp_path: Path) -> None:
    found = run_in_guest(HERE / "guest_rough.py", planned(tmp_path, networks.rough()))
    again = run_in_guest(HERE / "guest_rough.py", planned(tmp_path, networks.rough()))
    assert again == found, "the same seed gave another network"
    # Four standard errors of 4,000 draws.
    assert found["arrived"] == pytest.approx(0.9, abs=4 * (0.09 / 4000) ** 0.5)
    assert found["lost"] == round(4000 * (1 - found["arrived"]))
    assert found["steady"] == pytest.approx([0.020, 0.020], abs=TRIP)
    assert found["mean"] == pytest.approx(0.020, abs=4 * 0.002 / 4000**0.5)
    assert found["deviation"] == pytest.approx(0.002, rel=4 / (2 * 4000) ** 0.5)
    # A normal distribution has 68.3% there, a uniform one of the same deviation 57.7%.
    assert found["within one deviation"] == pytest.approx(0.683, abs=0.03)


@pytest.fixture
def used(run_in_guest: RunInGuest, tmp_path: Path) -> dict[str, Any]:
    if shutil.which("ping") is None:
        pytest.skip("no ping")
    result: dict[str, Any] = run_in_guest(HERE / "guest_mininet.py", planned(tmp_path, networks.line()))
    return result


def test_mininet_works_as_its_users_know_it(used: dict[str, Any]) -> None:
    assert used["names"] == ["e1", "m1", "m2", "r_east", "r_middle", "r_west", "west-1"]
    assert used["before"], "a shell was started that nobody asked for"
    assert used["cmd"].split() == ["one", "two"]
    assert used["popen"] == 2  # the network of the wire and the default route
    assert used["shell popen"] == "42\n"
    assert "10.1.0.2/30" in used["pexec"][0]
    assert used["pexec"][2] == 0
    assert used["interrupted after"] < 1
    assert used["pid"]
    assert used["between"] == ["r_west-eth1<->r_middle-eth2"]
    assert used["status"]
    assert used["pair loss"] == 0
    # Two local networks of half a millisecond belong to the middle only. The first packet is not late.
    assert used["ping"] == pytest.approx([70.0, 70.0, 70.0], abs=0.1)
    assert used["router"]
    assert used["added"]
    assert used["removed"] == 1

    text = used["command line"]
    assert "available nodes are: \ne1 m1 m2 r_east r_middle r_west west-1" in text
    assert "m1 m1-eth0:r_middle-eth0" in text
    assert "r_middle-eth0<->m1-eth0 (OK OK)" in text
    assert "0% dropped (12/12 received)" in text
    assert "2 packets transmitted, 2 received" in text
    assert "rtt min/avg/max/mdev = 51.0" in text
    assert "noqueue" in text
    assert "qdisc netem 1: dev r_middle-eth3 root" in text
    assert "10.1.0.2" in text

    port = ["r_west", "r_west-eth1"]
    assert used["delay"] == [*port, "netem delay", 10_000_000, 7_000_000]
    assert used["rate"][:4] == [*port, "htb rate", 12_500_000]
    assert used["queue"] == [*port, "bfifo limit", 250_000, 1000]
    assert used["gone"][:4] == [*port, "queue 1:", "netem"]
    assert used["tc delay"] == used["tc rate"] == used["tc queue"] == used["tc gone"] == ""

    assert used["changed trip"] == pytest.approx(0.151, abs=TRIP)
    assert used["changed rate"] == pytest.approx(20e6 * 1448 / 1514, rel=GOODPUT)
    assert used["restored"] == pytest.approx(0.051, abs=TRIP)
    assert used["no such port"].endswith("r_middle r_middle-eth3: remove the queues: No such device")


def test_what_the_guest_reads_stays_light() -> None:
    code = "import sys, testbed.engines.mininet.build, testbed.engines.mininet.probe, testbed.network.plan\n"
    code += "print([m for m in ('networkx', 'numpy', 'pandas', 'setuptools', 'distutils') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
