"""`peer metrics`: what the running peer counts, as Prometheus reads it."""

from peer.control import Where, ask
from peer.options import output_option, verb, where_options
from peer.output import show


@verb("metrics")
@where_options
@output_option
def command(where: Where, output: str) -> None:
    """What the running peer counts, in the text form of Prometheus; docs/metrics.md says what each name means.

    The same is served over HTTP by a peer that runs with --metrics.
    """
    text = ask(where, "metrics")
    show({"text": text}, output=output, table=text.rstrip("\n"))
