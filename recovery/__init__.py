"""Nothing is lost.

Here live the register that every app keeps on three peers, the coding of snapshots into fragments, custody of other
peers' fragments, and logs of what sources have read.
Imports `overlay` only: state is bytes here, never operators.
"""
