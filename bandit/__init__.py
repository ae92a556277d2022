"""Which way to send.

Here each peer will learn, for every link, how many attempts a batch costs, and choose the next hop whose
optimistic cost to the destination is least (KL-UCB; other policies behind the same interface). Pure machines:
plain numbers in, a choice out. Imports nothing of ours.
"""
