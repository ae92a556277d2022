"""One connection to an MQTT broker, driven by the thread that uses it.

Nobody but the caller moves bytes: `step` reads and writes what is due and returns. So a source that is not read stops
reading its socket, and the broker feels it; and there is no queue between threads to bound. A lost connection is
dialled again with backoff and jitter, for ever. The first dial is different: whoever starts an app with a wrong
address wants to hear of it.

paho-mqtt is the Eclipse project's own client, without dependencies, and can be driven like this; aiomqtt wraps the same
client for asyncio, which we do not run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from dataflow.connectors.mqtt_address import MqttAddress
from dataflow.errors import AppError
from overlay.backoff import Backoff

KEEPALIVE_S: Final = 60
CONNECT_S: Final = 5.0
"""For the dial, and again for the broker's first word."""
QOS: Final = 1
STEP_S_MAX: Final = 0.2
"""A step is short, so that whoever wants to end it need not wait."""


class MqttLink:
    """`on_message` gets (payload, acknowledge); `on_taken` the number of a publication that the broker has."""

    def __init__(
        self,
        address: MqttAddress,
        *,
        subscribe: bool = False,
        on_message: Callable[[bytes, Callable[[], None]], None] | None = None,
        on_taken: Callable[[int], None] | None = None,
    ) -> None:
        self._address = address
        self._subscribe = subscribe
        self._backoff = Backoff()
        self._rng = random.Random()
        self._refusal: str | None = None
        self.is_up = False
        self._client = client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=address.client or "",
            clean_session=address.client is None,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = CONNECT_S
        if address.user is not None:
            client.username_pw_set(address.user, address.password)
        if address.is_tls:
            client.tls_set()
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        if on_message is not None:
            heard = on_message
            client.on_message = lambda _, __, it: heard(bytes(it.payload), lambda: self._acknowledge(it.mid, it.qos))
        if on_taken is not None:
            taken = on_taken
            client.on_publish = lambda _, __, number, ___, ____: taken(number)

    def open(self) -> None:
        """Connect, or say in a sentence why not."""
        where = f"the MQTT broker {self._address}"
        try:
            self._client.connect(self._address.host, self._address.port, keepalive=KEEPALIVE_S)
        except (OSError, ValueError) as error:
            raise AppError(
                f"{where} cannot be reached: {error}. Is it running, and is the address right?"
            ) from error
        deadline = time.monotonic() + CONNECT_S
        while not self.is_up:
            self._check_refusal()
            if self._client.loop(STEP_S_MAX) != paho.MQTT_ERR_SUCCESS or time.monotonic() > deadline:
                self._check_refusal()
                raise AppError(f"{where} does not answer as one. Is something else listening there?")

    def step(self, wait_s: float = STEP_S_MAX) -> None:
        """Move what there is to move, or wait a little; dial again if it is time to."""
        if self._client.is_connected() or self._client.socket() is not None:
            if self._client.loop(wait_s) != paho.MQTT_ERR_SUCCESS:
                self._lost()
            self._check_refusal()
            return
        if not self._backoff.may_try(time.monotonic()):
            time.sleep(min(max(wait_s, 0.01), STEP_S_MAX))
            return
        try:
            self._client.reconnect()
        except (OSError, ValueError):
            self._lost()

    def redial(self) -> None:
        """Give this connection up: the broker says nothing."""
        sock = self._client.socket()
        if sock is not None:
            sock.close()
        self._client.loop(0)
        self._lost()

    def publish(self, payload: bytes) -> int:
        """Hand it over; what is not acknowledged is sent again after a reconnect. The number comes back by on_taken."""
        return self._client.publish(self._address.topic, payload, qos=QOS).mid

    def close(self) -> None:
        self._client.disconnect()
        if self._client.socket() is not None:
            self._client.loop(0)
        self.is_up = False

    def _lost(self) -> None:
        self.is_up = False
        self._backoff.on_failure(time.monotonic(), self._rng)

    def _acknowledge(self, number: int, qos: int) -> None:
        if qos and self.is_up:  # after a reconnect the broker sends it again, under another number
            self._client.ack(number, qos)

    def _on_connect(self, client: paho.Client, _: Any, __: Any, reason: Any, ___: Any) -> None:
        if reason.is_failure:
            self._refusal = f"refuses us: {reason}. Give user and password as mqtt://USER:PASSWORD@HOST/TOPIC"
        elif self._subscribe:
            client.subscribe(self._address.topic, qos=QOS)
        else:
            self._up()

    def _on_subscribe(self, _: Any, __: Any, ___: Any, reasons: Any, ____: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self._refusal = f'does not let us read topic "{self._address.topic}"'
        else:
            self._up()

    def _up(self) -> None:
        self.is_up = True
        self._backoff.on_success()

    def _check_refusal(self) -> None:
        if self._refusal is not None:
            raise AppError(f"the MQTT broker {self._address} {self._refusal}")
