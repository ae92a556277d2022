"""Sets of peer ids as Hypothesis draws them: scattered, crowded under one prefix, and everything between."""

from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.ids import ID_BITS, Key, PeerId

keys = st.integers(0, 2**ID_BITS - 1).map(Key)


@st.composite
def id_sets(draw: st.DrawFn, *, least: int = 1, most: int = 60) -> list[PeerId]:
    """Distinct ids. Half of them share a drawn prefix, because trouble lives in crowded subtrees."""
    scattered = draw(st.sets(keys, min_size=least, max_size=most // 2))
    prefix, free_bits = draw(keys), draw(st.integers(8, ID_BITS))
    tails = draw(st.sets(st.integers(0, 2**free_bits - 1), max_size=most // 2))
    crowded = {Key((prefix >> free_bits << free_bits) | tail) for tail in tails}
    return [PeerId(key) for key in sorted(scattered | crowded)]


def contact_of(peer: PeerId, *, zone: str = "", boot_ms: int = 0) -> Contact:
    return Contact(peer, "127.0.0.1", 4000, zone=zone, boot_ms=boot_ms)
