"""What is in the tree is in the wheel, and what is installed is what is constrained."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NOT_SHIPPED = {"tests", "bench", "docs", "examples", "build", "dist"}
PIN = re.compile(r"([A-Za-z0-9._-]+)==[A-Za-z0-9.]+")


def name_of(requirement):
    return re.split(r"[<>=!~\[; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_package_list_names_every_folder_with_python_in_it():
    folders = {
        ".".join(file.parent.relative_to(ROOT).parts)
        for file in ROOT.glob("*/**/*.py")
        if file.relative_to(ROOT).parts[0] not in NOT_SHIPPED
        and not file.relative_to(ROOT).parts[0].startswith(".")
    }
    assert folders == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_package_says_what_lives_in_it():
    for package in PROJECT["tool"]["setuptools"]["packages"]:
        assert (ROOT / package.replace(".", "/") / "__init__.py").is_file(), f"{package} has no __init__.py"


def test_everything_we_depend_on_is_constrained():
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["spark"], *extras["dev"]]
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in pins()}
    assert {name_of(it) for it in wanted} <= pinned


def test_constraints_are_exact_versions_and_nothing_else():
    assert [line for line in pins() if not PIN.fullmatch(line)] == []
    assert len(pins()) == len({line.partition("==")[0].lower() for line in pins()})


def test_one_entry_point_and_it_exists():
    import peer.cli

    assert PROJECT["project"]["scripts"] == {"peer": "peer.cli:main"}
    assert callable(peer.cli.main)
