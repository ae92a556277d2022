"""`peer launch APP`: run an app."""

import json
import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from peer.apps import Pair, Pairs, app_argument, by_name, load, param_option, sentence
from peer.complaint import Complaint
from peer.options import data_option, output_option, verb
from peer.output import columns, facts, show

if TYPE_CHECKING:
    from dataflow.app import App
    from peer.local_run import Outcome


@verb("launch")
@app_argument
@click.option("--local", is_flag=True, help="Run the app in this process, with no peer.")
@click.option(
    "--source",
    type=Pairs("NAME=SPEC", "--source readings=file:rooms.csv"),
    multiple=True,
    metavar="NAME=SPEC",
    help="Where a source's rows come from: file:PATH[?speed=N][&format=F], stdin[?format=F], "
    "tcp:HOST:PORT[?format=F]; F is csv, jsonl, parquet or text. May be repeated.",
)
@click.option(
    "--sink",
    type=Pairs("NAME=SPEC", "--sink alerts=file:alerts.csv"),
    multiple=True,
    metavar="NAME=SPEC",
    help="Where a sink's rows go: file:PATH.csv, .jsonl or .parquet, null, or console, which is what sinks do that are "
    "not named. May be repeated.",
)
@param_option
@click.option(
    "--as",
    "operator",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="SHOAL_OPERATOR",
    help="The operator's folder that signs the launch.  [default: DATA]",
)
@click.option("--memory", type=int, metavar="MIB", help="What each worker process may take.  [default: the app's, 256]")
@click.option("--batch-cpu", type=int, metavar="S", help="CPU that one batch may take.  [default: the app's, 30]")
@click.option("--batch-wall", type=int, metavar="S", help="Time that one batch may take.  [default: the app's, 120]")
@click.option("--detach", is_flag=True, help="Do not print rows: come back once the app runs.")
@click.option("--dry-run", is_flag=True, help="Say where everything would go, and start nothing.")
@data_option
@click.option("--until-end", is_flag=True, help="Come back when every source has ended. --local always does.")
@click.option("--stats", "with_stats", is_flag=True, help="Say also what it cost, and count each source and sink.")
@click.option("--strict", is_flag=True, help="Exit with 1 if there are dead letters.")
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    app: Path,
    local: bool,
    source: tuple[Pair, ...],
    sink: tuple[Pair, ...],
    param: tuple[Pair, ...],
    operator: Path | None,
    memory: int | None,
    batch_cpu: int | None,
    batch_wall: int | None,
    detach: bool,
    dry_run: bool,
    data: Path,
    until_end: bool,
    with_stats: bool,
    strict: bool,
    output: str,
) -> None:
    """Run the app of a Python file: on the ring, or with --local in this process.

    On the ring its sources are those that peers offer (`peer run --source`), and it runs on when Ctrl-C ends the
    printing of its rows. With --local it runs until its sources end; Ctrl-C ends the input, so open windows still
    give their results, and another one ends at once. Rows go to stdout, the closing line to stderr.

    Example: peer launch --local examples/hot_rooms.py --source readings=file:rooms.csv
    """
    limits = {"memory_mib": memory, "batch_cpu_s": batch_cpu, "batch_wall_s": batch_wall}
    given = {name: value for name, value in limits.items() if value is not None}
    if local and given:
        raise click.UsageError("--memory, --batch-cpu and --batch-wall are for apps on the ring, not for --local")
    if not local:
        if source or sink:
            raise click.UsageError(
                "--source and --sink are for --local; on the ring, devices offer them: peer run --source NAME=SPEC"
            )
        _launch_on_ring(app, param, given, data=data, operator=operator, detach=detach, dry_run=dry_run, output=output)
        return
    sources, sinks = by_name(source, flag="--source"), by_name(sink, flag="--sink")
    try:
        loaded = load(app, param)
    except KeyboardInterrupt:  # in the app file, before there is anything to close
        ctx.exit(128 + signal.SIGINT)
    outcome = _run(app, loaded, sources, sinks, param, output)
    _close(loaded, outcome, with_stats=with_stats, output=output)
    if outcome.signal is not None:
        ctx.exit(128 + outcome.signal)
    _judge(app, outcome, strict=strict)


def _launch_on_ring(
    app: Path,
    params: Iterable[Pair],
    given: Mapping[str, int],
    *,
    data: Path,
    operator: Path | None,
    detach: bool,
    dry_run: bool,
    output: str,
) -> None:
    loaded = load(app, params)
    try:
        limits = replace(loaded.limits, **given)
    except ValueError as error:
        raise Complaint(f"{error}.", "See peer launch --help.") from None
    from peer.ring_run import launch, print_streams

    answer = launch(app, by_name(params, flag="--param"), limits, data=data, operator=operator, rehearse=dry_run)
    if dry_run or detach:
        table = columns(answer["places"]) if dry_run else f"App {answer['name']} ({answer['app'][:8]}) runs."
        show(answer, output=output, table=table)
        return
    read = print_streams(data, answer["app"], answer["streams"], form=output)
    rows = sum(read.rows.values())
    if read.is_interrupted:
        click.echo(f"{loaded.name} runs on ({rows:,} rows so far). End it: peer stop {loaded.name}", err=True)
        return
    if read.state == "failed":
        raise Complaint(f'App "{loaded.name}" failed: {read.reason}', "Nothing of it runs. Mend it, then launch again.")
    missed = f", {read.missed:,} not seen" if read.missed else ""
    click.echo(f"{loaded.name}: {rows:,} rows out{missed}, {read.state}", err=True)


def _run(
    path: Path, app: "App", sources: dict[str, str], sinks: dict[str, str], params: Iterable[Pair], output: str
) -> "Outcome":
    from dataflow.errors import AppError
    from peer.local_run import run_here

    try:
        return run_here(app, sources, sinks, dict(params), form=output)
    except AppError as error:
        raise Complaint(
            sentence(error), f"What it expects: peer validate {path}. How to connect it: peer launch --help."
        ) from None
    except BrokenPipeError:
        raise  # whoever read our rows has seen enough; click ends quietly
    except OSError as error:
        raise Complaint(
            f"The run failed: {sentence(error)}.", "Look after that file or connection, then launch again."
        ) from None


def _close(app: "App", outcome: "Outcome", *, with_stats: bool, output: str) -> None:
    from peer.local_run import closing_facts, closing_line, letters_told, stats

    more = stats(outcome) if with_stats else {}
    if output == "json":
        click.echo(json.dumps(closing_facts(app, outcome.summary) | more), err=True)
        return
    for line in letters_told(app, outcome):
        click.echo(line, err=True)
    if more:
        click.echo(facts(more), err=True)
    click.echo(closing_line(app, outcome.summary), err=True)


def _judge(path: Path, outcome: "Outcome", *, strict: bool) -> None:
    """Bad rows do not stop an app; but if there were no others, or nobody may ignore one, the launch has failed."""
    if outcome.unread and not outcome.summary.rows_in:
        raise Complaint(
            f"No row could be read, and {outcome.unread:,} could not.",
            f"Compare the input with the schema of its source: peer validate {path}",
        )
    if strict and outcome.summary.dead_letters:
        raise Complaint(
            f"There were dead letters, {outcome.summary.dead_letters:,} of them.",
            "Mend those rows, or launch without --strict.",
        )
