"""In the guest: what people do with Mininet, done with a built network; prints what came of it."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from mininet.log import lg

from testbed.engines.mininet import probe, shape
from testbed.engines.mininet.build import build
from testbed.engines.mininet.stock import CLI
from testbed.network.plan import Plan
from testbed.spec.run import from_plain

found: dict[str, Any] = {}


def commands(net: Any) -> None:
    host = net.get("m1")
    found["names"] = sorted(net)
    found["before"] = host.shell is None
    found["cmd"] = host.cmd("echo one; echo two")
    found["popen"] = host.popen("cat /proc/self/net/route").communicate()[0].decode().count("m1-eth0")
    found["shell popen"] = host.popen("echo $((6*7)) | cat", shell=True).communicate()[0].decode()
    found["pexec"] = host.pexec("ip -br addr show m1-eth0")
    host.sendCmd("sleep 1000")
    begin = time.monotonic()
    host.sendInt()
    host.waitOutput()
    found["interrupted after"] = time.monotonic() - begin
    found["pid"] = Path(f"/proc/{host.pid}/ns/net").exists()
    found["between"] = [str(link) for link in net.linksBetween(net.get("r_west"), net.get("r_middle"))]
    found["status"] = {link.status() for link in net.links} == {"(OK OK)"}


def pings(net: Any) -> None:
    net.get("m1").cmd("true")
    found["pair loss"] = net.pingPair()
    text = net.get("west-1").cmd("ping -c 3", net.get("e1").IP())
    found["ping"] = [float(x) for x in re.findall(r"time=([\d.]+)", text)]
    found["router"] = "1 received" in net.get("r_west").cmd("ping -c 1", net.get("r_east").IP())


def links(net: Any) -> None:
    link = net.addLink("m1", "m2")
    link.intf1.setIP("192.168.7.1/24")
    link.intf2.setIP("192.168.7.2/24")
    net.get("m2").netlink.flush()
    time.sleep(1.5)
    found["added"] = "1 received" in net.get("m1").cmd("ping -c 1 192.168.7.2")
    net.delLink(link)
    found["removed"] = net.get("m1").cmd("ip -br link").count("eth")


def command_line(net: Any) -> str:
    script = Path("/run/script")
    script.write_text(
        "nodes\nnet\nlinks\ndump\npingall\nm1 ping -c 2 e1\nwest-1 tc qdisc show dev west-1-eth0\n"
        "r_middle tc -s qdisc\npy m1.IP()\n"
    )
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    handler.terminator = ""
    lg.addHandler(handler)
    # Standard input must be something that stays silent: at its end the command line would spin.
    silent = os.fdopen(os.pipe()[0])
    CLI(net, stdin=silent, script=str(script))
    return log.getvalue()


def mismatches(net: Any, plan: Plan) -> None:
    port = next(port for port in plan.ports if port.name == "west>middle")
    node = net.get(port.node)
    where = f"dev {port.interface}"
    for name, command in (
        ("delay", f"tc qdisc change {where} root handle 1: netem delay 7ms limit 1000000"),
        ("rate", f"tc class change {where} parent 2: classid 2:1 htb rate 99mbit quantum 15140"),
        ("queue", f"tc qdisc change {where} parent 2:1 handle 3: bfifo limit 1000"),
        ("gone", f"tc qdisc del {where} root"),
    ):
        found[f"tc {name}"] = node.cmd(command)
        try:
            shape.verify(net, plan)
            found[name] = None
        except shape.ShapingError as error:
            found[name] = [error.node, error.port, error.setting, error.wanted, error.found]
        if name != "gone":
            shape.change(net, port, port.channel)


def changes(net: Any, plan: Plan) -> None:
    """West to middle has lost its queues by now; it gets others, then others again in place."""
    port = next(port for port in plan.ports if port.name == "middle>east")
    shape.change(net, port, replace(port.channel, delay=0.125, rate=20e6))
    trips = {(t.source, t.target): t.measured for t in probe.round_trips(net, plan)}
    found["changed trip"] = trips["m1", "e1"]
    now = tuple(replace(e, rate=20e6, round_trip=0.151) for e in plan.expectations)
    found["changed rate"] = probe.goodput(net, replace(plan, expectations=now), "m1", "e1").measured
    shape.change(net, port, replace(port.channel, rate=None))
    shape.change(net, port, port.channel)
    found["restored"] = {(t.source, t.target): t.measured for t in probe.round_trips(net, plan)}["m1", "e1"]
    try:
        shape.change(net, replace(port, index=99), port.channel)
    except OSError as error:
        found["no such port"] = str(error)


def main(path: str) -> None:
    plan = from_plain(Plan, json.loads(Path(path).read_text()))
    net = build(plan)
    shape.shape(net, plan)
    commands(net)
    pings(net)
    links(net)
    found["command line"] = command_line(net)
    mismatches(net, plan)
    changes(net, plan)
    net.stop()
    net.stop()
    print(json.dumps(found))


main(*sys.argv[1:])
