"""From state to fragments and back.

    sealing   encrypt a part under a key of its own, before anybody else sees it
    erasure   any `needed` of `total` fragments give the data back
    coded     both with digests: what is wrong is noticed before it is decoded
    slices    large state in slices, so that a fragment fits a frame

Pure, and slow: a few milliseconds a megabyte. The shell runs it in a thread (all of it releases the GIL).
"""
