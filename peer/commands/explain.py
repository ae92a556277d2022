"""`peer explain APP`: what an app is made of before it runs, and where and why once it does."""

from pathlib import Path
from typing import Any

import click

from peer.apps import Pair, load, param_option
from peer.control import Where, ask
from peer.options import output_option, verb, where_options
from peer.output import columns, show

ASK_S_MAX = 20.0


@verb("explain")
@click.argument("app", metavar="APP")
@param_option
@click.option("--dot", is_flag=True, help="As a Graphviz picture: peer explain APP.py --dot | dot -Tsvg")
@where_options
@output_option
def command(app: str, param: tuple[Pair, ...], dot: bool, where: Where, output: str) -> None:
    """What an app is made of (APP is a file), or where a running one is, and why (APP is a name or id).

    Of a file: its stages, who feeds them, and what they give; * marks those that keep state. Of an app on the ring:
    which instance is on which peer and for which reason, the routes of its JOINs, and how loaded its hosts are.
    """
    if is_file_name(app):
        loaded = load(Path(app), param)
        from dataflow.explain import explain, explain_dot

        text = explain_dot(loaded) if dot else explain(loaded)
        show({"app": loaded.name, "text": text}, output=output, table=text)
        return
    if dot or param:
        raise click.UsageError("--dot and --param are for an app's file, such as peer explain app.py --dot")
    answer = ask(where, "explain", patience_s=ASK_S_MAX, app=app)
    show(answer, output=output, table=_table(answer))


def is_file_name(app: str) -> bool:
    """Whoever names a file ends it in .py, or writes a path, or has one of that name.

    >>> is_file_name("examples/hot_rooms.py"), is_file_name("hot-rooms")
    (True, False)
    """
    return app.endswith(".py") or "/" in app or Path(app).is_file()


def _table(answer: dict[str, Any]) -> str:
    head = f"app {answer['name']} ({answer['app'][:8]}), generation {answer['generation']}, {answer['state']}"
    routes = [f"JOIN {it['source']} -> {it['sink']}: {' -> '.join(it['hops'])}" for it in answer["routes"]]
    parts = [head, columns(answer["places"]), columns(answer["hosts"]), "\n".join(routes)]
    return "\n\n".join(part for part in parts if part)
