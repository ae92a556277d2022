"""Fixtures around real peer processes. Whatever a test does, none of its processes outlives it."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from peer.cli import cli
from peer.fleet import Fleet, is_alive


def one_fleet(folder: Path):
    """A fleet that is ended and counted afterwards."""
    with Fleet(folder) as fleet:
        yield fleet
    left = [member.name for member in fleet.members if is_alive(member.process.pid)]
    assert left == [], "processes outlived their fleet"


@pytest.fixture
def fleet(tmp_path_factory):
    yield from one_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """Four peers in two zones that know each other; tests share them and must not hurt them."""
    for fleet in one_fleet(tmp_path_factory.mktemp("ring")):
        first = fleet.start("lamp", zone="attic")
        fleet.await_listening([first])
        for name, zone in (("heater", "cellar"), ("kettle", "attic"), ("meter", "cellar")):
            fleet.start(name, zone=zone, join=[first])
        fleet.await_ring()
        yield fleet


@pytest.fixture
def peer():
    """Run `peer ARGUMENTS` in this process; gives click's result."""

    def run(*arguments, env=None):
        return CliRunner().invoke(cli, [str(it) for it in arguments], prog_name="peer", env=env)

    return run
