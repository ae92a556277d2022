"""Launch apps through running peers without a screen: sealed here, asked over the control socket, rows left alone."""

import base64

from dataflow.bundles.collecting import collect
from dataflow.bundles.limits import Limits
from dataflow.bundles.sealing import seal
from peer.control import ask
from peer.operator import load_operator

LAUNCH_S_MAX = 120.0


def sealed_app(folder, name, text, *, operator, params=None, **limits):
    """The sealed bytes of an app, as `peer launch` makes them."""
    path = folder / f"{name}.py"
    path.write_text(text)
    signer, credential = load_operator(operator)
    return seal(collect(path, params or {}, Limits(**limits)), signer=signer, credential=credential).pack()


def launch(member, sealed, **arguments):
    """The facts of the launch; a `Complaint` if there is none."""
    return ask(member.data, "launch", patience_s=LAUNCH_S_MAX, sealed=base64.b64encode(sealed).decode(), **arguments)
