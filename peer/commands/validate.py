"""`peer validate APP`: everything that can be known before rows flow."""

from pathlib import Path

from peer.apps import Pair, app_argument, load, param_option
from peer.options import output_option, verb
from peer.output import columns, show


@verb("validate")
@app_argument
@param_option
@output_option
def command(app: Path, param: tuple[Pair, ...], output: str) -> None:
    """Check an app without running it: says ok, and what its sources and sinks carry."""
    loaded = load(app, param)
    from dataflow.plan import make_plan
    from dataflow.schema import schema_text

    flows = {node.name: node.draft.outputs[0] for node in loaded.graph.of_kind("source")}
    sources = [
        {"kind": "source", "name": name, "event_time": flow.time.name if flow.time else None}
        | {"columns": schema_text(flow.schema)}
        for name, flow in flows.items()
    ]
    sinks = [
        {"kind": "sink", "name": name, "event_time": None, "columns": schema_text(schema)}
        for name, schema in make_plan(loaded.graph).schemas.items()
    ]
    params = {name: str(value) for name, value in loaded.params.items()}
    told = "".join(f"\nparam {name} = {value}" for name, value in params.items())
    show(
        {"app": loaded.name, "ok": True, "ends": sources + sinks, "params": params},
        output=output,
        table=f"ok: app {loaded.name}\n{columns(sources + sinks)}{told}",
    )
