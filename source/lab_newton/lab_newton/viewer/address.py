"""Where the page is served."""

from __future__ import annotations

import errno
import socket

from lab_core.errors import LabError

_PORTS_TRIED = 20


def free_port(host: str, port: int) -> int:
    """Returns ``port``, or the first free one of those that follow.

    Raises:
        LabError: ``host`` is no address of this machine, or the ports are all taken.
    """
    for candidate in range(port, port + _PORTS_TRIED):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
            except PermissionError as error:
                raise LabError(f"The viewer may not listen on port {candidate}: {error}.") from error
            except socket.gaierror as error:
                raise LabError(f"The viewer cannot listen on host {host!r}: {error}.") from error
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise LabError(f"The viewer cannot listen on host {host!r}: {error}.") from error
                continue
        return candidate
    raise LabError(f"Ports {port} to {port + _PORTS_TRIED - 1} of {host} are all taken. Choose another port.")
