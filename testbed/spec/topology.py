"""The network section: a preset, sites written out, or the name of a file that holds either."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, PlainValidator, TypeAdapter, ValidationError, model_validator

from testbed.network.model import Network
from testbed.network.presets import star, two_racks
from testbed.spec.channel import LanSection, UpDownLink
from testbed.spec.faults import (
    SpecError,
    below,
    elsewhere,
    faults_of,
    nearest,
    refusal,
    refusals,
    refuse_if_any,
    shown,
    unknown,
)
from testbed.spec.located import read
from testbed.spec.roles import Roles, strangers, with_roles
from testbed.spec.run import Tcp
from testbed.spec.section import Section
from testbed.spec.sites import Sites
from testbed.spec.tcp import TcpSection

UP_DOWN = "{rate: 100 Mbit/s, delay: 20 ms}"
MOST_WORKERS = 10_000
"""more than any engine carries; a slip of the finger should not fill the memory."""


@dataclass(frozen=True)
class Topology:
    """A network and how its connections behave."""

    network: Network
    tcp: Tcp


def _links(value: Any) -> UpDownLink | tuple[UpDownLink, ...]:
    """One mapping for all workers, or a list with one each."""
    if isinstance(value, dict):
        return UpDownLink.model_validate(value)
    if isinstance(value, list):
        return TypeAdapter(tuple[UpDownLink, ...]).validate_python(value)
    raise ValueError(f"{shown(value)} is not a link; write {UP_DOWN} for all, or a list with one each.")


Workers = Annotated[int, Field(ge=1, le=MOST_WORKERS, examples=["8"])]


class Star(Section):
    """A server's site in the middle, one site per worker around it. `links` in the workers' order."""

    preset: Literal["star"]
    workers: Workers | None = None
    links: Annotated[UpDownLink | tuple[UpDownLink, ...], PlainValidator(_links), Field(examples=[UP_DOWN])]
    lan: LanSection = LanSection()
    roles: Roles = Field(default_factory=dict)
    name: str = "star"
    tcp: TcpSection = TcpSection()

    @model_validator(mode="after")
    def _one_link_each(self) -> Self:
        if isinstance(self.links, UpDownLink):
            if self.workers is None:
                raise refusal('is missing; write it like "workers: 8".', "workers")
        elif self.workers not in (None, len(self.links)) or not self.links:
            told = f"{len(self.links)} links for {self.workers or 'no'} workers"
            raise refusal(f"{told}; write one for each worker, or a single mapping for all.", "links")
        _refuse_strangers(self.roles, self.network())
        return self

    def network(self) -> Network:
        """The network that this describes."""
        links = self.links if isinstance(self.links, tuple) else (self.links,) * (self.workers or 0)
        return with_roles(star([link.directions() for link in links], self.lan.channel(), self.name), self.roles)


class TwoRacks(Section):
    """Two local networks and one link: server and half of the workers here, the other half there."""

    preset: Literal["two-racks"]
    workers: Annotated[int, Field(ge=2, le=MOST_WORKERS, examples=["8"])]
    link: Annotated[UpDownLink, Field(examples=[UP_DOWN])]
    lan: LanSection = LanSection()
    roles: Roles = Field(default_factory=dict)
    name: str = "two-racks"
    tcp: TcpSection = TcpSection()

    @model_validator(mode="after")
    def _roles_are_on_hosts(self) -> Self:
        _refuse_strangers(self.roles, self.network())
        return self

    def network(self) -> Network:
        """The network that this describes."""
        racks = two_racks(self.workers, self.lan.channel(), self.link.directions(), self.name)
        return with_roles(racks, self.roles)


class Named(Section):
    """A network from a file, with other connections if `tcp` says so, and the named roles moved."""

    use: Annotated[str, Field(examples=["two-racks"])]
    roles: Roles = Field(default_factory=dict)
    tcp: TcpSection | None = None


Drawn: TypeAlias = Star | TwoRacks | Sites
"""A network that stands in a file, checked."""

PRESETS: dict[str, type[Star] | type[TwoRacks]] = {"star": Star, "two-racks": TwoRacks}
FORMS = ("preset", "sites", "use")
"""The key that tells what kind of network section this is."""


def topology(value: Any, folders: Iterable[Path]) -> Topology:
    """The network that a section of a file describes; a pydantic refusal says what is wrong with it."""
    if isinstance(value, str):
        return _built(_from_folders(value, folders))
    if isinstance(value, dict) and "use" in value:
        named = Named.model_validate(value)
        try:
            found = _from_folders(named.use, folders)
        except ValidationError as error:
            raise below(error, "use") from None
        return _built(_moved(found, named.roles), named.tcp)
    return _built(_drawn(value))


def load_topology(path: Path) -> Topology:
    """The network of a file by itself; SpecError when there is none."""
    return _built(_load(path))


def _built(section: Drawn, tcp: TcpSection | None = None) -> Topology:
    return Topology(section.network(), (tcp or section.tcp).tcp())


def _refuse_strangers(roles: dict[str, tuple[str, ...]], network: Network) -> None:
    """A refusal below `roles` when a role is on a host that is none."""
    findings = strangers(roles, network.hosts)
    if findings:
        raise refusals((("roles", *place), message) for place, message in findings)


def _moved(section: Drawn, roles: dict[str, tuple[str, ...]]) -> Drawn:
    """The network with these roles elsewhere than its file says, and the others where they were."""
    changes: dict[str, Any] = {"roles": {**section.roles, **roles}}
    if "server" in roles and isinstance(section, Sites):
        changes["server"] = None
    moved = section.model_copy(update=changes)
    _refuse_strangers(roles, moved.network())
    if not moved.network().workers:
        raise refusal("leaves nobody who trains; name fewer hosts.", "roles", "server")
    return moved


def _load(path: Path) -> Drawn:
    document = read(path)
    faults = list(document.faults)
    try:
        found = _drawn(document.value, path.stem)
    except ValidationError as error:
        refuse_if_any([*faults, *faults_of(error, document.file, document.line)], document.file)
        raise
    refuse_if_any(faults, document.file)
    return found


def _drawn(value: Any, name: str | None = None) -> Drawn:
    """A network given by a preset or by its sites; `name` is for one that has none of its own."""
    if not isinstance(value, dict) or not value:
        remedy = 'name a preset, like "preset: star", or write "sites:"'
        raise refusal(f"{shown(value)} is not a network; {remedy}.")
    if name is not None:
        value = {"name": name, **value}
    if "preset" in value:
        preset = value["preset"]
        if not isinstance(preset, str) or preset not in PRESETS:
            raise refusal(unknown(str(preset), "a preset", PRESETS), "preset")
        return PRESETS[preset].model_validate(value)
    if "sites" in value:
        return Sites.model_validate(value)
    meant = [key for key in value if nearest(key, FORMS)]
    if meant:
        raise refusal(unknown(meant[0], "a key here", FORMS), meant[0])
    raise refusal('says neither "preset:" nor "sites:"; write one of them, or the name of a network.')


def _from_folders(name: str, folders: Iterable[Path]) -> Drawn:
    """The network in the first folder that holds a file of that name."""
    files: dict[str, Path] = {}
    for folder in folders:
        found = sorted(folder.glob("*.y*ml")) if folder.is_dir() else []
        for path in found:
            files.setdefault(path.stem, path)
    if name not in files:
        raise refusal(unknown(name, "a network in the topologies folder", files))
    try:
        return _load(files[name])
    except SpecError as error:
        raise elsewhere(error) from None
