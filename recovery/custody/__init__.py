"""Fragments of other peers, kept; our own, given away, fetched back and repaired.

    messages    the questions and answers
    holder      keep fragments of others on disk, within a quota; files: how each lies there
    deposit     give the fragments of a part away, until every one has a receipt
    retrieval   get a part back from whoever still has it
    audit       which fragments of a part are still good
    repair      find what is lost, rebuild it, give it away again
    release     what may be dropped after a commit

Machines without sockets and clocks: they return an `Ask`, the shell puts it and tells what became of it.
"""
