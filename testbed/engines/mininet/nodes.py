"""Mininet's nodes without a process each.

They keep the interface of their stock parent. A node is a network namespace held open by a
descriptor; its shell starts when somebody first asks for it, because a shell costs more than the rest
of a node a hundred times over.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import termios
from typing import Any

from testbed.engines.mininet import namespaces, netlink
from testbed.engines.mininet.netlink import Netlink
from testbed.engines.mininet.stock import Node

_LOOPBACK = 1
_UP = 1
_PROMPT = chr(127)


class NlNode(Node):  # type: ignore[misc]
    """A node of Mininet that is a namespace first and a shell only on demand."""

    isSetup = True  # nothing is needed from the search path until a shell is asked for
    shell: Any

    def startShell(self, mnopts: Any = None) -> None:
        """Called by the parent's constructor; here it makes the namespace."""
        self.namespace = namespaces.create()
        self.netlink = Netlink(self.namespace)
        self.netlink.post(netlink.NEWLINK, 0, netlink.link(_LOOPBACK, _UP, _UP), f"{self.name}: lo up")

    def mountPrivateDirs(self) -> None:
        """Private folders need a shell with a mount namespace of its own, which these nodes lack."""
        if self.privateDirs:
            raise ValueError(f"{self.name}: a node without a mount namespace cannot have private folders")

    def unmountPrivateDirs(self) -> None:
        """There are none."""

    @property
    def pid(self) -> int:
        """The shell's process; asking for it starts the shell."""
        self.ensure_shell()
        return int(self.shell.pid)

    @pid.setter
    def pid(self, value: Any) -> None:
        """The parent's constructor sets it to None; the shell knows better."""

    def ensure_shell(self) -> None:
        """Start the shell on a pseudo-terminal, in the node's namespace, unless it runs already."""
        if self.shell:
            return
        self.netlink.flush()
        self.master, self.slave = pty.openpty()
        modes = termios.tcgetattr(self.slave)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(self.slave, termios.TCSANOW, modes)
        self.shell = self._popen(
            ["bash", "--norc", "--noediting", "+m", "-is", f"mininet:{self.name}"],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={**os.environ, "PS1": _PROMPT, "HISTFILE": ""},
        )
        self.stdin = self.stdout = os.fdopen(self.master, "r")
        self.pollOut = select.poll()
        self.pollOut.register(self.stdout)
        self.outToNode[self.master] = self.inToNode[self.master] = self
        self.readbuf = ""
        self.waiting = True
        self.waitOutput()

    def _popen(self, cmd: list[str], **params: Any) -> subprocess.Popen[Any]:
        """A process in the node's namespace, out of reach of the terminal's interrupt key."""
        params.setdefault("start_new_session", True)
        with namespaces.inside(self.namespace):
            return subprocess.Popen(cmd, **params)

    def popen(self, *args: Any, **kwargs: Any) -> Any:
        """As the parent's, without mnexec in front of the command."""
        self.netlink.flush()
        kwargs.setdefault("mncmd", [])
        os.environ.setdefault("SHELL", "/bin/bash")  # the parent reads it for shell=True
        return super().popen(*args, **kwargs)

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        """As the parent's; what is queued for the kernel takes effect first."""
        self.ensure_shell()
        self.netlink.flush()
        return super().cmd(*args, **kwargs)

    def sendCmd(self, *args: Any, **kwargs: Any) -> None:
        """As the parent's; what is queued for the kernel takes effect first."""
        self.ensure_shell()
        self.netlink.flush()
        super().sendCmd(*args, **kwargs)

    def config(self, **params: Any) -> dict[str, Any]:
        """Address, hardware address and default route, where given."""
        results: dict[str, Any] = {}
        for name, setter in (("mac", "setMAC"), ("ip", "setIP"), ("defaultRoute", "setDefaultRoute")):
            self.setParam(results, setter, **{name: params.get(name)})
        return results

    def terminate(self) -> None:
        """End the shell and let go of the namespace; may be called twice."""
        super().terminate()
        if self.namespace >= 0:
            self.netlink.close()
            os.close(self.namespace)
            self.namespace = -1

    def write_sysctl(self, key: str, value: str) -> None:
        """Set a kernel setting of the node's namespace. OSError names the key.

        What may not be written, as in some containers, may have the value already.
        """
        path = f"/proc/sys/{key}"
        with namespaces.inside(self.namespace):
            try:
                with open(path, "w") as file:
                    file.write(value)
            except OSError as error:
                with open(path) as file:
                    if file.read().split() == value.split():
                        return
                raise OSError(error.errno, f"{self.name}: {key} = {value}: {error.strerror}") from error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {','.join(f'{i}:{i.IP()}' for i in self.intfList())}>"


class NlHost(NlNode):
    """A host."""


class NlRouter(NlNode):
    """A site's router, which answers at an address of its own."""

    def IP(self, intf: Any = None) -> str:
        """The router's own address, or that of an interface."""
        return str(super().IP(intf)) if intf else str(self.params["address"])
