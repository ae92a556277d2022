"""Finished streams into PySpark.

Here will live the data source that reads a sink's committed segments exactly once, from whichever peer holds
them. The only package that imports pyspark; of ours it imports `dataflow`'s batch format and the client.
"""
