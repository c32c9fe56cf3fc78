"""A network written out: sites with hosts, and the links that join them."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, ValidationInfo, field_validator, model_validator

from testbed.network.model import Link, Network, Site
from testbed.spec.channel import JoiningLink, LanSection
from testbed.spec.faults import Place, refusals, shown, unknown
from testbed.spec.roles import Roles, strangers, with_roles
from testbed.spec.section import Section
from testbed.spec.tcp import TcpSection

LONGEST_NAME = 10
"""characters of a site or host; "-eth12" follows, and Linux allows an interface fifteen in all."""
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_NAME_RULE = f'use {LONGEST_NAME} characters or fewer: small letters, digits, hyphens, a letter first, like "paris".'

T = TypeVar("T")


class SiteSection(Section):
    """A place: hosts around one router. Without a `lan` they reach it at once and at any rate."""

    hosts: Annotated[tuple[str, ...], Field(strict=False, examples=["[w1, w2]"])] = ()
    lan: LanSection = LanSection()


class Sites(Section):
    """The network. Without `workers`, every host but the servers trains, in file order.

    `server: s1` is short for `roles: {server: s1}`. With `routes: fewest-links` a pair that has a link of its own
    uses it, also where a way through a third site has less delay.
    """

    sites: Annotated[dict[str, SiteSection], Field(examples=["{paris: {hosts: [w1]}}"])]
    links: Annotated[tuple[JoiningLink, ...], Field(strict=False)] = ()
    server: Annotated[str | None, Field(examples=["s1"])] = None
    roles: Roles = Field(default_factory=dict)
    workers: Annotated[tuple[str, ...] | None, Field(strict=False, examples=["[w1, w2]"])] = None
    routes: Annotated[Literal["least-delay", "fewest-links"], Field(examples=["least-delay"])] = "least-delay"
    name: str = "custom"
    tcp: TcpSection = TcpSection()

    @field_validator("sites")
    @classmethod
    def _names_are_usable(cls, sites: dict[str, SiteSection]) -> dict[str, SiteSection]:
        findings: list[tuple[Place, str]] = []
        seen: dict[str, str] = {}
        for site, section in sites.items():
            placed: list[tuple[Place, str, str]] = [((site,), site, "a site")]
            placed += [((site, "hosts", i), host, "a host") for i, host in enumerate(section.hosts)]
            for place, name, what in placed:
                if name in seen:
                    findings.append((place, f'"{name}" is already {seen[name]}; give each its own name.'))
                elif not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
                    findings.append((place, f"{shown(name)} cannot name {what}; {_NAME_RULE}"))
                seen.setdefault(name, f"{what} of this network")
        return _passed(sites, findings)

    @field_validator("links")
    @classmethod
    def _links_join_sites(cls, links: tuple[JoiningLink, ...], info: ValidationInfo) -> tuple[JoiningLink, ...]:
        sites: dict[str, SiteSection] | None = info.data.get("sites")
        if sites is None:
            return links
        findings: list[tuple[Place, str]] = []
        seen: dict[frozenset[str], int] = {}
        for number, link in enumerate(links):
            place, ends = (number, "between"), frozenset(link.between)
            strangers = [(i, end) for i, end in enumerate(link.between) if end not in sites]
            findings += [((*place, i), unknown(end, "a site of this network", sites)) for i, end in strangers]
            if len(ends) == 1:
                findings.append((place, f'joins "{link.between[0]}" to itself; name two sites.'))
            elif ends in seen:
                a, b = link.between
                findings.append((place, f'"{a}" and "{b}" are joined by links[{seen[ends]}] already; keep one.'))
            seen.setdefault(ends, number)
        return _passed(links, findings or _apart(list(sites), links))

    @field_validator("server")
    @classmethod
    def _server_is_a_host(cls, server: str | None, info: ValidationInfo) -> str | None:
        sites = info.data.get("sites")
        if server is None or sites is None or server in _hosts(sites):
            return server
        return _passed(server, [((), unknown(server, "a host of this network", _hosts(sites)))])

    @field_validator("roles")
    @classmethod
    def _roles_are_on_hosts(cls, roles: dict[str, tuple[str, ...]], info: ValidationInfo) -> dict[str, tuple[str, ...]]:
        sites, server = info.data.get("sites"), info.data.get("server")
        findings = [] if sites is None else strangers(roles, _hosts(sites))
        if server is not None and "server" in roles:
            findings.append((("server",), f'stands beside "server: {server}"; keep one of the two.'))
        return _passed(roles, findings)

    @field_validator("workers")
    @classmethod
    def _workers_are_hosts(cls, workers: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        sites = info.data.get("sites")
        if workers is None or sites is None:
            return workers
        hosts = _hosts(sites)
        findings: list[tuple[Place, str]] = []
        for rank, worker in enumerate(workers):
            if worker not in hosts:
                findings.append(((rank,), unknown(worker, "a host of this network", hosts)))
            elif worker in workers[:rank]:
                findings.append(((rank,), f'"{worker}" stands here twice; keep one.'))
        return _passed(workers, findings)

    @model_validator(mode="after")
    def _somebody_trains(self) -> Self:
        nobody: tuple[Place, str] = (("workers",), "nobody trains; name one host or more.")
        return _passed(self, [] if self._ranks() else [nobody])

    def _ranks(self) -> tuple[str, ...]:
        """Whoever trains: a server only if `workers` names it."""
        if self.workers is not None:
            return self.workers
        servers = {self.server, *self.roles.get("server", ())}
        return tuple(host for host in _hosts(self.sites) if host not in servers)

    def network(self) -> Network:
        """The network that this describes."""
        sites = tuple(Site(name, site.hosts, site.lan.channel()) for name, site in self.sites.items())
        links = tuple(Link(*link.between, *link.directions()) for link in self.links)
        network = Network(self.name, sites, links, self._ranks(), self.server, routes=self.routes)
        return with_roles(network, self.roles)


def _passed(value: T, findings: list[tuple[Place, str]]) -> T:
    if findings:
        raise refusals(findings)
    return value


def _hosts(sites: dict[str, SiteSection]) -> list[str]:
    return [host for site in sites.values() for host in site.hosts]


def _apart(sites: list[str], links: tuple[JoiningLink, ...]) -> list[tuple[Place, str]]:
    """A finding when no path leads from the first site to another one."""
    reached = set(sites[:1])
    for _ in sites:
        reached |= {end for link in links if reached & set(link.between) for end in link.between}
    lost = [site for site in sites if site not in reached]
    if not lost:
        return []
    names = ", ".join(shown(site) for site in lost)
    return [((), f'no path leads from "{sites[0]}" to {names}; add a link.')]
