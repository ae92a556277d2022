"""`python -m peer` is `peer`, also where no script was installed."""

from peer.cli import main

main()
