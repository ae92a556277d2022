"""What the stages of an app need beside their slots: memory for the processes that run its Python functions.

An instance without Python fits a slot: its inbox and its buffers are bounded by credit. A stage with Python starts
worker processes, each of which may take up to the app's `memory_mib`; so much is kept for it, for a device that
promises more than it has begins to swap, and all its apps with it.

Rejected: counting what apps are seen to use (it grows after they were admitted, when it is too late to refuse).
"""

from dataflow.bundles.limits import Limits
from dataflow.engine.workers import PYTHON_KINDS
from dataflow.plan import Plan


def memory_needs_mib(plan: Plan, limits: Limits) -> dict[int, int]:
    """By stage; those that fit a slot are not named."""
    needs = {}
    for stage in plan.stages:
        if any(node.kind in PYTHON_KINDS for node in stage.nodes):
            needs[stage.id] = limits.memory_mib * max(node.draft.parallelism for node in stage.nodes)
    return needs
