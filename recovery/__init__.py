"""Nothing is lost.

Here will live the register that every app keeps on three peers, the tokens that end epochs, snapshots, the
erasure coding of their fragments, custody of other peers' fragments, and the choice of where to back up.
Imports `overlay` only: state is bytes here, never operators.
"""
