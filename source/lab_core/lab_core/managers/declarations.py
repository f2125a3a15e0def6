"""Facts about the function of a term that hold wherever it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def declare(
    *, capturable: bool = False, differentiable: bool = False, writes: tuple[str, ...] = ()
) -> Callable[[_Function], _Function]:
    """States facts where a function is defined; a class states them as attributes of these names.

    Args:
        capturable: Whether a graph may hold it, as :attr:`TermCfg.capturable` says for one use of it.
        differentiable: Whether it is torch work on nothing but the state of articulations, actions, commands and how
            long episodes have lasted, without random numbers, memory or writing in place. It may then be evaluated
            elsewhere than in the simulation, with gradients: :class:`lab_core.imagination.Imagination`.
        writes: Buffers of articulations that it sets besides the state, such as ``"body_wrench_w"``. Who records an
            environment then knows that they decide how it moves.
    """

    def decorate(function: _Function) -> _Function:
        vars(function).update(capturable=capturable, differentiable=differentiable, writes=writes)
        return function

    return decorate
