"""Where a topic is: mqtt://[USER[:PASSWORD]@]HOST[:PORT]/TOPIC, or mqtts:// for TLS.

    >>> it = MqttAddress.parse("mqtt://anna:secret@broker.local/house/+/celsius")
    >>> it.host, it.port, it.topic, it.user, str(it)
    ('broker.local', 1883, 'house/+/celsius', 'anna', 'broker.local:1883')

Printed without the password: it ends up in messages. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

TOPIC_BYTES_MAX = 65_535


@dataclass(frozen=True, slots=True)
class MqttAddress:
    host: str
    port: int
    topic: str
    is_tls: bool = False
    user: str | None = None
    password: str | None = None
    client: str | None = None
    """A name of our own keeps our place at the broker: what is published while we are away waits there."""

    @classmethod
    def parse(cls, url: str, *, client: str | None = None) -> MqttAddress:
        """`ValueError` with the reason if it is none."""
        head, _, topic = url.partition("://")[2].partition("/")  # a topic may hold # and +
        parts = urlsplit(f"//{head}")
        is_tls = url.startswith("mqtts:")
        if not parts.hostname:
            raise ValueError("it names no host")
        if not topic or len(topic.encode()) > TOPIC_BYTES_MAX or "\0" in topic:
            raise ValueError("it names no topic")
        port = parts.port if parts.port is not None else 8883 if is_tls else 1883
        user, password = (None if it is None else unquote(it) for it in (parts.username, parts.password))
        return cls(parts.hostname, port, topic, is_tls, user, password, client)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
