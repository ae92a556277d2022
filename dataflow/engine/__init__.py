"""Running operators: the sans-IO core (instance, executor) and its thin shells (threads, workers)."""
