"""One value per app that is never lost and never forks: what everybody must agree on.

    ballot       who may write now: ordered, and nobody's twice
    config       which peers vote, each with the token of its record
    value        what is kept: bytes, how often they changed, by which changes, and the next config once sealed
    messages     what is asked of a member, and what it answers
    acceptor     one member: a stored record and a question in, an answer and the next record out
    store        acceptors on a disk: stored first, answered then
    proposer     one change of the value, however many rounds it takes
    membership   the first config, and the move to the next

CASPaxos: every change is a ballot that reads what a majority keeps and writes what a pure function makes of it.
There is no log and no leader. Whoever proposes need not be a member, and keeps nothing on disk.
"""
