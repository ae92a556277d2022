"""One file per verb. Each is imported only when its verb is used, and imports what is heavy inside it."""
