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
from peer.options import as_option, at_option, data_option, output_option, verb, where_of
from peer.output import columns, facts, show

if TYPE_CHECKING:
    from dataflow.app import App
    from peer.control import Where
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
@click.option("--memory", type=int, metavar="MIB", help="What each worker process may take.  [default: the app's, 256]")
@click.option("--batch-cpu", type=int, metavar="S", help="CPU that one batch may take.  [default: the app's, 30]")
@click.option("--batch-wall", type=int, metavar="S", help="Time that one batch may take.  [default: the app's, 120]")
@click.option("--detach", is_flag=True, help="Print no rows: come back once the app runs on all its hosts.")
@click.option("--wait", is_flag=True, help="Print no rows: come back once the app is over; exit with 1 if it failed.")
@click.option("--dry-run", is_flag=True, help="Say where everything would go, and start nothing.")
@as_option
@at_option
@data_option
@click.option("--until-end", is_flag=True, help="Come back when every source has ended: what is done anyway.")
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
    at: str | None,
    detach: bool,
    wait: bool,
    dry_run: bool,
    data: Path,
    until_end: bool,
    with_stats: bool,
    strict: bool,
    output: str,
) -> None:
    """Run the app of a Python file: on the ring, or with --local in this process.

    On the ring its sources are those that peers offer (`peer offers`), and --as names the operator who signs it. Its
    rows are printed until it ends; it runs on when Ctrl-C ends the printing, or with --detach. With --local it runs
    until its sources end; Ctrl-C ends the input, so open windows still give their results, and another one ends at
    once. Rows go to stdout, the closing line to stderr.

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
        if detach + wait + dry_run > 1:
            raise click.UsageError("--detach, --wait and --dry-run exclude each other: choose when to come back")
        mode = "detach" if detach else "wait" if wait else "dry-run" if dry_run else "print"
        where = where_of(data, at, operator)
        _launch_on_ring(app, param, given, where=where, operator=operator or data, mode=mode, output=output)
        return
    if detach or wait or dry_run or at:
        raise click.UsageError("--detach, --wait, --dry-run and --at are for the ring, not for --local")
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
    where: "Where",
    operator: Path,
    mode: str,
    output: str,
) -> None:
    loaded = load(app, params)
    try:
        limits = replace(loaded.limits, **given)
    except ValueError as error:
        raise Complaint(f"{error}.", "See peer launch --help.") from None
    from peer.ring_run import await_end, launch, print_streams

    named = by_name(params, flag="--param")
    answer = launch(app, named, limits, where=where, operator=operator, rehearse=mode == "dry-run")
    if mode == "dry-run":
        show(answer, output=output, table=columns(answer["places"]))
    elif mode == "detach":
        runs = "runs already" if answer["was_running"] else "runs"
        show(answer, output=output, table=f"App {answer['name']} ({answer['app'][:8]}) {runs}.")
    elif mode == "wait":
        try:
            status = await_end(where, answer["app"])
        except KeyboardInterrupt:
            click.echo(f"{loaded.name} runs on. End it: peer stop {loaded.name}", err=True)
            return
        _fail_if(loaded.name, status["state"], status["reason"])
        rows = sum(status["rows"].values())
        show(status, output=output, table=f"{loaded.name}: {rows:,} rows out, {status['state']}")
    else:
        read = print_streams(where, [(answer["app"], stream) for stream in answer["streams"]], form=output)
        if read.is_interrupted:
            click.echo(f"{loaded.name} runs on ({read.rows:,} rows so far). End it: peer stop {loaded.name}", err=True)
            return
        _fail_if(loaded.name, read.state, read.reason)
        missed = f", {read.missed:,} not seen" if read.missed else ""
        click.echo(f"{loaded.name}: {read.rows:,} rows out{missed}, {read.state}", err=True)


def _fail_if(name: str, state: str, reason: str) -> None:
    if state == "failed":
        raise Complaint(f'App "{name}" failed: {reason}', f"Nothing of it runs. See `peer logs {name}`, mend it.")


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
