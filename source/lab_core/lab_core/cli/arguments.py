"""What all commands share in reading their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab_core.config.annotations import field_types, is_form_of, options
from lab_core.errors import LabError
from lab_core.registry import task_ids

if TYPE_CHECKING:
    import torch


@dataclass(kw_only=True)
class EnvironmentOptions:
    """Options of every command that builds an environment. A command says again what it means by one, if it must."""

    num_envs: int | None = None
    """Environments in parallel. Without it: the task's number."""
    seed: int | None = None
    """Seed of everything random; -1 draws one. Without it: the environment's."""
    device: str = "auto"
    """cpu, cuda or cuda:<number>; auto takes a GPU if there is one."""
    frontend: str = "auto"
    """What runs the environment: torch; warp, which captures the whole step as one graph; or auto, which takes warp
    where it is installed and can run the task."""


def with_dashes(argv: Sequence[str]) -> list[str]:
    """Returns ``argv`` with ``-`` for ``_`` in the names of options."""
    arguments: list[str] = []
    for argument in argv:
        if argument.startswith("--"):
            name, separator, value = argument.partition("=")
            argument = name.replace("_", "-") + separator + value
        arguments.append(argument)
    return arguments


def split_subject(argv: Sequence[str], cls: type) -> tuple[str | None, list[str]]:
    """Splits off what a command is about: a task, a file or a folder, wherever it stands among the options.

    It is the first argument that belongs to no option, or the first that is the id of a task.

    Args:
        argv: Arguments, with dashes in the names of options.
        cls: The dataclass of the command's own options: it says how many values each takes. An option of the
            environment or the agent takes what follows it.

    Returns:
        The subject, None without one, and the other arguments.
    """
    arguments = list(argv)
    for index in _positions(arguments, cls):
        return arguments.pop(index), arguments
    return None, arguments


def split_subjects(argv: Sequence[str], cls: type) -> tuple[list[str], list[str]]:
    """Splits off all arguments that belong to no option; see :func:`split_subject`."""
    positions = set(_positions(list(argv), cls))
    subjects = [argument for index, argument in enumerate(argv) if index in positions]
    return subjects, [argument for index, argument in enumerate(argv) if index not in positions]


def _positions(arguments: list[str], cls: type) -> Iterator[int]:
    """Yields the indices of the arguments that belong to no option."""
    most: float = 0  # values that the option before may still take
    tasks = task_ids()
    for index, argument in enumerate(arguments):
        if argument.startswith("--"):
            most = 0 if "=" in argument else _most_values(argument, cls)
        elif argument == "-h":
            most = 0
        elif most > 0 and argument not in tasks:
            most -= 1
        else:
            yield index


def _most_values(option: str, cls: type) -> float:
    name = option.removeprefix("--").replace("-", "_")
    types = field_types(cls)
    declared = types.get(name, types.get(name.removeprefix("no_")))
    if name == "help" or declared is bool:
        return 0
    takes_many = declared is None or any(is_form_of(form, tuple) for form in options(declared))
    return float("inf") if takes_many else 1


def option_value(argv: Sequence[str], option: str) -> str | None:
    """Returns the value of ``--option VALUE`` or ``--option=VALUE``, for what must be known before parsing."""
    for index, argument in enumerate(argv):
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
        if argument == option and index + 1 < len(argv):
            return argv[index + 1]
    return None


def is_given(argv: Sequence[str], option: str) -> bool:
    """Returns whether ``--option``, with or without a value, is in ``argv``."""
    return any(argument.partition("=")[0] == option for argument in argv)


def asks_for_help(argv: Sequence[str]) -> bool:
    """Returns whether ``argv`` asks for the help text, for which nothing needs to exist."""
    return bool({"-h", "--help"} & set(argv))


def check_counts(args: object, *names: str) -> None:
    """Checks options that count something.

    Raises:
        LabError: one of them is given and is not at least 1.
    """
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise LabError(f"--{name.replace('_', '-')} must be at least 1, got {value}.")


def resolve_device(name: str) -> torch.device:
    """Returns the torch device called ``name``; ``auto`` is the first GPU, or the CPU without one.

    Raises:
        LabError: there is no such device.
    """
    import torch

    if name == "auto":
        name = "cuda:0" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise LabError(f"Unknown device {name!r}; use cpu, cuda or cuda:<number>.") from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            found = f"torch finds {count} GPU{'s' if count != 1 else ''}"
            raise LabError(f"Device {name!r} does not exist: {found}. Use --device cpu to run without.")
        device = torch.device("cuda", device.index or 0)
    elif device.type != "cpu":
        raise LabError(f"Device {name!r} is not supported; use cpu, cuda or cuda:<number>.")
    return device
