"""The operators, one a file: what each does to batches and marks, sans-IO."""
