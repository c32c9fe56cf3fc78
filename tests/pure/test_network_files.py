"""Networks in files: presets, sites written out, names; and what is wrong with them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from testbed.network.model import Channel, Placement
from testbed.network.routes import bottleneck, round_trip
from testbed.spec.faults import SpecError, faults_of
from testbed.spec.located import parse
from testbed.spec.topology import Topology, load_topology, topology

FOLDER = Path(__file__).parents[2] / "topologies"


def drawn(text: str, *folders: Path) -> Topology:
    return topology(parse(text, "net.yaml").value, folders)


def faults(text: str, *folders: Path) -> list[str]:
    document = parse(text, "net.yaml")
    with pytest.raises(ValidationError) as refused:
        topology(document.value, folders)
    return [str(fault) for fault in faults_of(refused.value, "net.yaml", document.line)]


def test_one_mapping_serves_all_links_of_a_star() -> None:
    network = drawn("preset: star\nworkers: 3\nlinks: {rate: 10 Mbit/s, rtt: 40 ms, loss: 1 %}").network
    assert {link.forward for link in network.links} == {Channel(rate=10e6, delay=0.02, loss=0.01)}
    assert len(network.workers) == 3


def test_a_list_of_links_tells_the_number_of_workers() -> None:
    network = drawn("preset: star\nlinks:\n- {rate: 1 Mbit/s, delay: 1 ms}\n- {rate: 2 Mbit/s, delay: 2 ms}").network
    assert [link.backward.rate for link in network.links] == [1e6, 2e6]


def test_a_direction_overrides_what_both_share() -> None:
    link = "{delay: 10 ms, rate: 10 Mbit/s, up: {rate: 1 Mbit/s, queue: 64 kB}, down: {jitter: 1 ms}}"
    network = drawn(f"preset: two-racks\nworkers: 2\nlink: {link}").network
    assert network.links[0].forward == Channel(rate=1e6, delay=0.01, queue=64000)
    assert network.links[0].backward == Channel(rate=10e6, delay=0.01, jitter=0.001)


def test_sites_written_out() -> None:
    network = drawn(
        """
        sites:
          paris: {hosts: [s, w1], lan: {rate: 1 Gbit/s}}
          tokyo: {hosts: [w2]}
          transit: {}
        links:
          - {between: [paris, transit], rate: 10 Mbit/s, delay: 5 ms, backward: {rate: 5 Mbit/s}}
          - {between: [transit, tokyo], rate: 20 Mbit/s, delay: 50 ms}
        server: s
        """
    ).network
    assert network.workers == ("w1", "w2")
    assert network.site_of("w1").lan == Channel(rate=1e9)
    assert bottleneck(network, "s", "w2") == 10e6
    assert bottleneck(network, "w2", "s") == 5e6
    assert round_trip(network, "s", "w2") == pytest.approx(0.11)


def test_the_networks_that_come_with_the_project() -> None:
    star = drawn("star", FOLDER)
    assert star == load_topology(FOLDER / "star.yaml")
    assert star.network.name == "star"
    racks = drawn("use: two-racks\ntcp: {congestion: bbr}", FOLDER)
    assert racks.tcp.congestion == "bbr"
    lan, link = "{rate: 1 Gbit/s, delay: 50 us}", "{rate: 100 Mbit/s, delay: 10 ms}"
    assert racks.network == drawn(f"preset: two-racks\nworkers: 8\nlan: {lan}\nlink: {link}").network


def test_the_first_folder_wins_and_a_file_keeps_its_lines(tmp_path: Path) -> None:
    (tmp_path / "star.yaml").write_text("preset: star\n\nworkers: 0\nlinks: {rate: 1 Mbt/s, delay: 1 ms}\n")
    assert faults("star", tmp_path, FOLDER) == [
        f"{tmp_path}/star.yaml:3: workers: 0 must be 1 or more.",
        f'{tmp_path}/star.yaml:4: links.rate: "1 Mbt/s" is not a rate; did you mean "Mbit/s"? '
        'Write it like "100 Mbit/s".',
    ]
    with pytest.raises(SpecError, match=r"star\.yaml:3: workers"):
        load_topology(tmp_path / "star.yaml")


@pytest.mark.parametrize(
    ("text", "start", "words"),
    [
        (
            "two-rack",
            "net.yaml:1: ",
            '"two-rack" is not a network in the topologies folder; did you mean "two-racks"?',
        ),
        ("../topologies/star", "net.yaml:1: ", "is not a network"),
        ("[1]", "net.yaml:1: ", "a list is not a network"),
        ("use: two-rack", "net.yaml:1: use: ", 'did you mean "two-racks"?'),
        ("\nprest: star", "net.yaml:2: prest: ", '"prest" is not a key here; did you mean "preset"?'),
        ("workers: 3", "net.yaml:1: ", 'says neither "preset:" nor "sites:"'),
        ("preset: str", "net.yaml:1: preset: ", '"str" is not a preset; did you mean "star"?'),
    ],
)
def test_which_network_is_meant(text: str, start: str, words: str) -> None:
    (fault,) = faults(text, FOLDER)
    assert fault.startswith(start)
    assert words in fault


@pytest.mark.parametrize(
    ("link", "place", "words"),
    [
        ("{rat: 1 Mbit/s, delay: 1 ms}", "links.rat", '"rat" is not a key here; did you mean "rate"?'),
        ("{delay: 1 ms}", "links.rate", 'is missing; write it like "rate: 100 Mbit/s"'),
        ("{rate: 1 Mbit/s}", "links.delay", "is missing"),
        ("{rate: , delay: 1 ms}", "links.rate", 'has no value; write it like "rate: 100 Mbit/s"'),
        ("{rate: 1 Mbit/s, delay: 1 ms, rtt: 2 ms}", "links.rtt", "not both"),
        ("{rate: 1 Mbit/s, rtt: 2 ms, up: {delay: 2 ms}}", "links.up.delay", "remove the rtt"),
        ("{rate: 1 Mbit/s, delay: 0 ms, jitter: 1 ms}", "links.jitter", "1 ms of jitter need a delay"),
        ("{rate: 1 Mbit/s, delay: 1 ms, queue: 500 B}", "links.queue", "500 B hold no full frame"),
        ("{rate: 1 Mbit/s, delay: 1 ms, loss: 0.1}", "links.loss", '0.1 has no unit. Write "10 %"'),
        ("{rate: 1 Mbit/s, delay: 1 ms, loss: 120 %}", "links.loss", '"120 %" is more than the whole'),
        ("{rate: 0 Mbit/s, delay: 1 ms}", "links.rate", "must be more than 0"),
        ("[{rate: 1 Mbit/s, delay: 1 ms}]", "links", "1 links for 2 workers"),
        ("fast", "links", '"fast" is not a link'),
    ],
)
def test_links(link: str, place: str, words: str) -> None:
    (fault,) = faults(f"preset: star\nworkers: 2\nlinks: {link}")
    assert fault.startswith(f"net.yaml:3: {place}: ")
    assert words in fault


def test_the_lan_has_the_same_rules() -> None:
    (fault,) = faults(
        "preset: star\nworkers: 2\nlinks: {rate: 1 Mbit/s, delay: 1 ms}\nlan: {queue: 64 kB}",
    )
    assert fault.startswith("net.yaml:4: lan.queue: a queue needs a rate")


SITES = """\
sites:
  hub: {hosts: [s, w1]}
  paris: {hosts: [w2]}
links:
  - {between: [hub, paris], rate: 1 Mbit/s, delay: 1 ms}
"""


@pytest.mark.parametrize(
    ("old", "new", "start", "words"),
    [
        ("paris: {", "Paris: {", "net.yaml:3: sites.Paris: ", '"Paris" cannot name a site'),
        ("[w2]", "[w_2]", "net.yaml:3: sites.paris.hosts[0]: ", '"w_2" cannot name a host'),
        ("[w2]", "[worker-0000]", "net.yaml:3: sites.paris.hosts[0]: ", "10 characters or fewer"),
        ("[w2]", "[w1]", "net.yaml:3: sites.paris.hosts[0]: ", '"w1" is already a host of this network'),
        ("[w2]", "[hub]", "net.yaml:3: sites.paris.hosts[0]: ", '"hub" is already a site of this network'),
        ("[hub, paris]", "[hub, pari]", "net.yaml:5: links[0].between[1]: ", 'did you mean "paris"?'),
        ("[hub, paris]", "[hub, hub]", "net.yaml:5: links[0].between: ", "to itself"),
        ("links:", "links: []\nx:", "net.yaml:4: links: ", 'no path leads from "hub" to "paris"'),
        (
            "links:",
            "server: w\nlinks:",
            "net.yaml:4: server: ",
            '"w" is not a host of this network; did you mean',
        ),
        ("links:", "workers: [w1, w1]\nlinks:", "net.yaml:4: workers[1]: ", '"w1" stands here twice'),
        ("links:", "workers: [w7]\nlinks:", "net.yaml:4: workers[0]: ", '"w7" is not a host of this network'),
        ("links:", "workers: []\nlinks:", "net.yaml:4: workers: ", "nobody trains"),
        (
            "links:",
            "tcp: {congestion: cubc}\nlinks:",
            "net.yaml:4: tcp.congestion: ",
            'did you mean "cubic"?',
        ),
    ],
)
def test_sites(old: str, new: str, start: str, words: str) -> None:
    found = faults(SITES.replace(old, new, 1))
    assert any(fault.startswith(start) and words in fault for fault in found), found


PLACED = [
    pytest.param(SITES + "server: s\n", id="sites"),
    pytest.param("preset: star\nworkers: 2\nlinks: {rate: 1 Mbit/s, delay: 1 ms}\n", id="star"),
    pytest.param("preset: two-racks\nworkers: 2\nlink: {rate: 1 Mbit/s, delay: 1 ms}\n", id="two-racks"),
]
"""Networks of the workers w1 and w2 and a server."""


@pytest.mark.parametrize("text", PLACED)
def test_roles_are_placed_in_every_form_of_a_network(text: str, tmp_path: Path) -> None:
    server = drawn(text).network.server
    (tmp_path / "mine.yaml").write_text(text)
    roles = f"roles: {{monitor: w1, gg: [{server}, w2]}}"
    for network in (drawn(text + roles).network, drawn(f"use: mine\n{roles}", tmp_path).network):
        assert network.roles == (Placement("monitor", ("w1",)), Placement("gg", (server or "", "w2")))
        assert network.hosts_of("monitor") == ("w1",)
        assert network.hosts_of("server") == network.hosts_of("elsewhere") == (server,)
        assert network.workers == ("w1", "w2")


def test_roles_of_a_named_network_stay_unless_they_are_named_again(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(SITES + "server: s\nroles: {monitor: w1, gg: w2}\n")
    network = drawn("use: mine\nroles: {gg: w1, server: w2}", tmp_path).network
    assert [network.hosts_of(role) for role in ("monitor", "gg", "server")] == [("w1",), ("w1",), ("w2",)]
    assert network.workers == ("s", "w1")  # whoever does not serve, in file order
    (fault,) = faults("use: mine\nroles: {gg: w11}", tmp_path)
    assert fault.startswith('net.yaml:2: roles.gg: "w11" is not a host of this network; did you mean "w1"')
    (fault,) = faults("use: mine\nroles: {server: [s, w1, w2]}", tmp_path)
    assert fault.startswith("net.yaml:2: roles.server: leaves nobody who trains")


def test_one_server_is_the_same_however_it_is_written() -> None:
    assert drawn(SITES + "roles: {server: s}") == drawn(SITES + "server: s")
    assert drawn(SITES + "roles: {server: [s]}") == drawn(SITES + "server: s")


def test_several_servers() -> None:
    network = drawn(SITES + "roles: {server: [w2, s]}").network
    assert (network.server, network.hosts_of("server")) == ("w2", ("w2", "s"))
    assert network.workers == ("w1",)
    both = drawn(SITES + "roles: {server: [w2, s]}\nworkers: [w1, w2]").network
    assert (both.hosts_of("server"), both.workers) == (("w2", "s"), ("w1", "w2"))
    star = drawn("preset: star\nworkers: 2\nlinks: {rate: 1 Mbit/s, delay: 1 ms}\nroles: {server: [w1, w2]}").network
    assert (star.hosts_of("server"), star.workers) == (("w1", "w2"), ("w1", "w2"))


@pytest.mark.parametrize("text", PLACED)
@pytest.mark.parametrize(
    ("roles", "place", "words"),
    [
        ("{monitor: w11}", ".monitor", '"w11" is not a host of this network; did you mean "w1"'),
        ("{monitor: [w1, w7]}", ".monitor[1]", '"w7" is not a host of this network'),
        ("{monitor: [w1, w1]}", ".monitor[1]", '"w1" stands here twice; keep one.'),
        ("{monitor: []}", ".monitor", "no host cannot run a role; write it like"),
        ("{monitor: }", ".monitor", "no host cannot run a role"),
        ("{monitor: 3}", ".monitor", "3 cannot run a role"),
        ("{monitor: [3]}", ".monitor[0]", "3 is not the name of a host"),
        ("{worker: w1}", ".worker", 'the key "workers" of the network says who trains'),
        ("{workers: w1}", ".workers", 'the key "workers" of the network says who trains'),
        ("{a b: w1}", ".a b", '"a b" cannot name a role; write the name of its method'),
        ("{class: w1}", ".class", '"class" cannot name a role'),
        ("w1", "", '"w1" does not say where roles run; write it like "{monitor: w1}"'),
    ],
)
def test_roles_that_cannot_be_placed(text: str, roles: str, place: str, words: str) -> None:
    (fault,) = faults(f"{text}roles: {roles}")
    assert fault.startswith(f"net.yaml:{text.count(chr(10)) + 1}: roles{place}: ")
    assert words in fault


def test_the_server_is_placed_once() -> None:
    (fault,) = faults(SITES + "server: s\nroles: {server: w1}")
    assert fault == 'net.yaml:7: roles.server: stands beside "server: s"; keep one of the two.'


def test_two_links_between_the_same_sites() -> None:
    (fault,) = faults(SITES + "  - {between: [paris, hub], rate: 1 Mbit/s, delay: 1 ms}\n")
    assert fault.startswith("net.yaml:6: links[1].between: ")
    assert "joined by links[0] already" in fault
