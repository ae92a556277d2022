"""A real MQTT broker in a process of its own: mosquitto where it is installed, amqtt otherwise.

`python broker.py PORT` runs amqtt; `Broker` starts either, and ends it by its pid.
"""

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

STARTED_WITHIN_S = 30
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


class Broker:
    def __init__(self, folder):
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._process = None

    def start(self):
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + STARTED_WITHIN_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise RuntimeError((self._folder / "broker.log").read_text())

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _command(self):
        if MOSQUITTO is None:
            return [sys.executable, str(Path(__file__)), str(self.port)]
        settings = self._folder / "mosquitto.conf"
        settings.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\n")
        return [MOSQUITTO, "-c", str(settings)]


def main(port):
    import asyncio

    from amqtt.broker import Broker as Amqtt

    async def serve():
        await Amqtt(
            {
                "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
                "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
            }
        ).start()
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main(int(sys.argv[1]))
