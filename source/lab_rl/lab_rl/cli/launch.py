"""``--processes N``: starts a command again as several processes, by PyTorch's elastic launcher."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from lab_core.cli import option_value
from lab_core.errors import LabError


def launch_processes(command: str, argv: Sequence[str]) -> None:
    """Replaces this process by ``torchrun``, which starts ``lab COMMAND`` so often as ``--processes`` says.

    It returns where that is once, or where ``torchrun`` has started this process.

    Raises:
        LabError: the number is none, or ``torchrun`` has started another number of processes.
    """
    text = option_value(argv, "--processes")
    if text is None:
        return
    if not text.isdecimal() or int(text) < 1:
        raise LabError(f"--processes must be a number of at least 1, got {text!r}.")
    started = os.environ.get("WORLD_SIZE")
    if started is not None and started != text:
        raise LabError(f"torchrun has started {started} processes: leave --processes {text} out.")
    if started is None and int(text) > 1:
        os.execve(sys.executable, launch_command(command, argv, int(text)), _on_this_machine())


def launch_command(command: str, argv: Sequence[str], processes: int) -> list[str]:
    """Returns the command line that starts ``lab COMMAND ARGV`` in several processes of this machine."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    # Without the two dashes the launcher would take options such as --logs for abbreviations of its own.
    return [sys.executable, *launcher, "--", "lab_core.cli", command, *argv]


def _on_this_machine() -> dict[str, str]:
    """The environment of the processes: they meet on the loopback device, whatever the machine is called."""
    device = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    return {"OMP_NUM_THREADS": "1", **device, **os.environ}
