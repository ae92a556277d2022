"""How many instances, and where.

Here an operator's health score will be driven towards one by guarded secant steps: more instances in the
peer when it computes too slowly, on neighbouring peers when the way there is too narrow. Pure machines:
signals in, a plan out. Imports `overlay` only, and knows operators by name alone.
"""
