"""`host:port`, as people write it: in flags, in tables, in cached contacts."""


def parse_address(text: str) -> tuple[str, int]:
    """The two parts of an address; a `ValueError` says what is wrong with it.

    >>> parse_address("127.0.0.1:4000"), parse_address("[::1]:0")
    (('127.0.0.1', 4000), ('::1', 0))
    >>> parse_address("lamp")
    Traceback (most recent call last):
    ValueError: 'lamp' is not host:port, such as 192.168.1.20:4000 or [::1]:4000
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    is_port = port.isascii() and port.isdigit() and int(port) <= 65535
    if not colon or not host or not is_port or (":" in host) is not bracketed or any(map(str.isspace, host)):
        raise ValueError(f"{text!r} is not host:port, such as 192.168.1.20:4000 or [::1]:4000")
    return host, int(port)


def parse_advertised(text: str, *, port: int) -> tuple[str, int]:
    """`host` or `host:port`; without a port, or with 0, it is `port`. A `ValueError` says what is wrong.

    >>> parse_advertised("lamp.local", port=4000), parse_advertised("10.0.0.7:5000", port=4000)
    (('lamp.local', 4000), ('10.0.0.7', 5000))
    >>> parse_advertised("::1", port=4000), parse_advertised("[::1]", port=4000)
    (('::1', 4000), ('::1', 4000))
    """
    is_bare_ipv6 = text.count(":") > 1 and not text.startswith("[")
    is_host_alone = ":" not in text or text.endswith("]") or is_bare_ipv6
    if not is_host_alone:
        host, named_port = parse_address(text)
        return host, named_port or port
    host, _ = parse_address(f"[{text}]:{port}" if is_bare_ipv6 else f"{text}:{port}")
    return host, port
