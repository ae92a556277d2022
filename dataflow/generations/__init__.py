"""One mechanism for recovery, scaling, migration and departure: a new generation from a committed epoch.

    record       what an app's register holds: who runs what, what is committed, where the snapshots are
    notes        what an instance hands in with its epoch: a snapshot, an offset, an end
    messages     what keeper and hosts say to each other
    keeper       the register member that leads: drives a generation, ends epochs, replaces the dead
    reassign     the next assignment, when peers are gone or have come
    checkpoint   a host's part of an epoch: all instances snapshotted, stored, then acknowledged, once
    feed         a source: rows go through a log on the device, and come again from it after a rollback
    finished     a sink: rows are shown when their epoch is committed, never before, and never change

All of it is pure. The same machines run on peers (peer/) and in the simulator's chaos (sim/).
"""
