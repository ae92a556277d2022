"""`peer sim ring|churn|spread|deploy|chaos`: the same machines, thousands of them, on virtual time."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from peer.complaint import Complaint
from peer.options import Verb, output_option
from peer.output import facts, show

Progress = Callable[[float, str], None]


@click.group("sim")
def command() -> None:
    """The same peers in a simulator: thousands of them, on virtual time, with one seed for one trace."""


@command.command("ring", cls=Verb)
@click.option("--peers", type=click.IntRange(2, 100_000), default=1000, help="How many peers.")
@click.option("--keys", type=click.IntRange(1), default=1000, help="How many keys to route to.")
@click.option("--seed", type=int, default=1, help="Another seed, another world.")
@click.option(
    "--latency",
    type=click.Choice(["constant", "uniform", "lognormal", "planetlab", "seattle"]),
    help="How long links take: drawn, or measured.  [default: uniform]",
)
@click.option(
    "--latency-file",
    type=click.Path(exists=True, path_type=Path),
    help="Where the measured round-trip times are, for planetlab and seattle.",
)
@click.option(
    "--choice",
    type=click.Choice(["proximity", "hops"]),
    default="proximity",
    help="How to choose a next hop.",
)
@click.option("--zones", type=click.IntRange(1, 1000), default=8, help="How many zones.")
@click.option("--loss", type=click.FloatRange(0, 0.9), default=0.0, help="Share of messages that are lost.")
@output_option
def ring(output: str, **options: Any) -> None:
    """Grow a ring, route keys through it, and check that each reached its true owner."""
    from sim.ring import ring as experiment

    _run(experiment, options, output)


@command.command("churn", cls=Verb)
@click.option("--peers", type=click.IntRange(2, 100_000), default=1000, help="How many peers.")
@click.option("--leave-per-min", type=click.FloatRange(0, 10), default=0.3, help="Share of them that goes each minute.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), default=10.0, help="How long the storm lasts.")
@click.option("--seed", type=int, default=1, help="Another seed, another storm.")
@click.option("--loss", type=click.FloatRange(0, 0.9), help="Share of messages lost.  [default: 0.05, then 0.2]")
@click.option("--crash-share", type=click.FloatRange(0, 1), default=0.5, help="Who goes without a goodbye.")
@click.option("--zones", type=click.IntRange(1, 1000), default=8, help="How many zones.")
@click.option("--strict", is_flag=True, help="Exit with 1 if anything is wrong after the storm.")
@output_option
def churn(output: str, strict: bool, **options: Any) -> None:
    """Let peers come, leave and crash, then check that the ring is whole again."""
    from sim.storm import churn as experiment

    report = _run(experiment, options, output)
    wrong = [run for run in report.get("runs") or [report] if min(run["delivered"], run["leaf_sets_exact"]) < 1]
    if strict and wrong:
        raise Complaint(
            f"After the storm the ring was not whole, at a loss of {wrong[0]['loss']:g}.",
            f"One seed is one storm: --seed {options['seed']} shows it again.",
        )


@command.command("spread", cls=Verb)
@click.option("--peers", type=click.IntRange(2, 100_000), default=10_000, help="How many peers.")
@click.option("--apps", type=click.IntRange(1, 100_000), default=1000, help="How many apps, of 5 to 15 operators.")
@click.option("--seed", type=int, default=1, help="Another seed, another ring and other apps.")
@click.option("--zones", type=click.IntRange(1, 1000), default=20, help="How many zones.")
@output_option
def spread(output: str, **options: Any) -> None:
    """Launch many apps and count the operators on each peer, and the hops to a scheduler."""
    from sim.spread import spread as experiment

    _run(experiment, options, output)


@command.command("deploy", cls=Verb)
@click.option("--apps", default="250,500,750,1000", help="How many apps at once; several numbers for several runs.")
@click.option("--peers", type=click.IntRange(2, 100_000), default=10_000, help="How many peers.")
@click.option("--seed", type=int, default=1, help="Another seed, another ring and other apps.")
@click.option("--zones", type=click.IntRange(1, 1000), default=20, help="How many zones.")
@output_option
def deploy(output: str, apps: str, **options: Any) -> None:
    """Launch many apps at once, with our schedulers and with one master, and compare how long each waits."""
    from sim.deploy import deploy as experiment

    _run(experiment, {**options, "apps": _numbers(apps)}, output)


@command.command("chaos", cls=Verb)
@click.option("--seeds", type=click.IntRange(1, 1_000_000), default=20, help="How many worlds; each draws its faults.")
@click.option("--first", type=click.IntRange(0), default=1, help="The first seed.")
@click.option("--replay", type=click.IntRange(0), help="Run this one seed and tell what happened in it.")
@output_option
def chaos(output: str, seeds: int, first: int, replay: int | None) -> None:
    """Run an app while peers crash, disks fail and the network breaks; check that no row is lost or doubled."""
    if replay is not None:
        _replay(replay)
        return
    from sim.apps.chaos import chaos as experiment

    report = _run(experiment, {"seeds": seeds, "first": first}, output)
    if report["failed"]:
        bad = report["failed"][0]
        raise Complaint(f"Seed {bad['seed']} broke a promise: {bad['why']}", f"See it again: {bad['replay']}")


def _replay(seed: int) -> None:
    from sim.apps.chaos import run_seed

    outcome = run_seed(seed, keeps_trace=True)
    for line in outcome.trace:
        click.echo(line)
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(outcome.faults.items())) or "none"
    click.echo(f"seed {seed}: {outcome.rows} rows, {outcome.epochs} epochs, {outcome.generations} generations")
    click.echo(f"faults: {faults}")
    if outcome.violations:
        raise Complaint(f"Seed {seed} broke a promise: {outcome.violations[0]}", f"See it again: {outcome.replay}")
    click.echo("nothing lost, nothing doubled")


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 0 < int(part) <= 100_000 for part in parts):
        raise Complaint(
            f"--apps is numbers from 1 to 100000 with commas between them, not {text}.", "Try: --apps 250,500"
        )
    return [int(part) for part in parts]


def _run(experiment: Callable[..., dict[str, Any]], options: dict[str, Any], output: str) -> dict[str, Any]:
    from sim.replay import SimulationError

    try:
        with _progress() as progress:
            report = experiment(**options, progress=progress)
    except SimulationError as error:
        raise click.ClickException(f"The simulation found a fault: {error}") from None
    except ValueError as error:
        raise Complaint(f"This cannot be simulated: {error}", "See: peer sim --help") from None
    except KeyboardInterrupt:
        raise Complaint("Interrupted.", "Fewer --peers take less time.") from None
    show(report, output=output, table=_tables(report))
    return report


def _tables(report: dict[str, Any]) -> str:
    """The facts of a report; if it holds several runs, each under the loss that it had."""
    runs = report.get("runs")
    if not runs:
        return facts(report)
    return "\n\n".join(facts(run) for run in runs)


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar for a person who waits; nothing for a pipe. On stderr: stdout is for the result."""
    if not sys.stderr.isatty():
        yield lambda share, phrase: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda share, phrase: bar.update(task, completed=share, description=phrase)
