"""One peer's share of an app: which instances it runs, and how batches reach and leave them."""
