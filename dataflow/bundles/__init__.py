"""How an app travels: its source, content-hashed, signed by an operator, imported in a namespace of its own."""
