"""Apps on virtual time: the machines of dataflow/generations on peers that crash, pause, lose and forget.

app        what runs: two numbered sources, a sink that takes every row, a window with sums
device     a source: rows go through a log on the peer's disk, and come again from it
peer       one peer: an AppNode, a disk, what it does one after the other
network    questions and rows between peers, with every fault of it as a named option
world      all of them, and the launch
swarm      which faults a seed draws, and when they strike
chaos      one seed, many seeds, the report
"""
