"""Explicit state of objects: what a checkpoint needs to go on bit for bit, and what a reset may touch.

A class that owns state derives from :class:`Stateful`. Its state is found, not declared:

- every ``torch.Tensor`` and ``torch.Generator`` attribute,
- those of ``torch.nn.Module`` attributes (parameters and buffers) and of nested ``Stateful`` attributes,
- lists, tuples and dicts of all these,
- plain Python attributes (counters, flags, lists of numbers) named in the class attribute ``_state_fields``.

What is no state, such as intermediate results and constants, is declared where it is made, by
:meth:`Stateful.scratch`. What nobody declares is saved. Other objects (configurations, simulator handles, Warp arrays)
are never entered, nor is a :class:`StateRoot` from another object, so that a term's state does not lead up to the whole
environment. Two attributes that share memory are saved twice and loaded twice, which does no harm.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

import torch
from torch import Tensor

from lab_core.errors import LabError

_T = TypeVar("_T")
_SCRATCH = "_scratch_values"
"""Attribute that holds what :meth:`Stateful.scratch` was given: the values, so that copies keep their meaning."""


class StateError(LabError, ValueError):
    """A saved state does not fit the object that shall take it."""


class Stateful:
    """Mixin that saves and restores the state of an object and of everything below it."""

    _state_fields: ClassVar[tuple[str, ...]] = ()
    """Plain Python attributes or properties to save; those of base classes are added."""

    def scratch(self, value: _T) -> _T:
        """Leaves an attribute out of the state: ``self._rows = self.scratch(torch.zeros(...))``.

        It holds for this value (a tensor, a list or dict of tensors, a nested :class:`Stateful`) as a whole, and stays
        alive with this object: for what is made once, not anew in every step. Another value that is assigned to the
        same attribute is state again. What every step makes anew belongs into an object of its own, which is no
        :class:`Stateful`.

        Returns:
            The value.
        """
        vars(self).setdefault(_SCRATCH, []).append(value)
        return value

    def state_dict(self) -> dict[str, Any]:
        """Copy of the state: dotted path -> tensor, generator state (uint8 tensor) or plain value.

        Raises:
            TypeError: A field of ``_state_fields`` is not plain data.
        """
        return {path: _read(path, leaf) for path, leaf in _walk(self)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state in place: tensors keep their addresses.

        Args:
            state: What :meth:`state_dict` returned, tensors on any device.

        Raises:
            StateError: Keys are missing or unknown, or a shape or dtype differs. All mismatches are listed, and
                nothing has been changed.
        """
        leaves = dict(_walk(self))
        problems = [f"{path}: missing" for path in leaves.keys() - state.keys()]
        problems += [f"{path}: unknown" for path in state.keys() - leaves.keys()]
        for path in leaves.keys() & state.keys():
            problems += _mismatch(path, leaves[path], state[path])
        if problems:
            raise StateError(f"State does not fit {type(self).__name__}:\n  " + "\n  ".join(sorted(problems)))
        for path, leaf in leaves.items():
            if isinstance(leaf, _Field):
                _write(leaf, state[path])
        # Setting a field may draw random numbers or build objects anew: what it left behind is written last.
        for path, leaf in _walk(self):
            if not isinstance(leaf, _Field):
                _write(leaf, state[path])

    def _state_items(self) -> Iterable[tuple[str, Any]]:
        """Attributes to search for state. Extend it for state that is no attribute, such as views of foreign memory."""
        scratch = {id(value) for value in vars(self).get(_SCRATCH, ())}
        return [(name, value) for name, value in vars(self).items() if name != _SCRATCH and id(value) not in scratch]


class StateRoot(Stateful):
    """Owner of a whole state, such as an environment or its physics: who holds one only refers to it."""


@contextmanager
def lasting_tensors() -> Iterator[None]:
    """Inside, new tensors can be written for ever after, also where the caller is in inference mode.

    What is created in inference mode cannot be written outside it. Gradients are not recorded.
    """
    with torch.inference_mode(False), torch.no_grad():
        yield


def named_tensors(obj: Any) -> dict[str, Tensor]:
    """The tensors of the state of an object by dotted path: the live buffers, not copies.

    Args:
        obj: :class:`Stateful`, ``torch.nn.Module``, or list, tuple or dict of these and of tensors.
    """
    return {path: leaf for path, leaf in _walk(obj) if isinstance(leaf, Tensor)}


def writable(tensor: Tensor) -> Tensor:
    """View without repeated elements: expanded dimensions, which cannot be written, have length one."""
    return tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())]


@dataclass(frozen=True)
class _Field:
    """A plain attribute of ``_state_fields``."""

    owner: Stateful
    name: str


_Leaf: TypeAlias = Tensor | torch.Generator | _Field


def _walk(root: Any) -> Iterator[tuple[str, _Leaf]]:
    seen: dict[int, Any] = {}  # holds what it has seen, so that no id is used again during the walk

    def visit(path: str, value: Any, is_held: bool) -> Iterator[tuple[str, _Leaf]]:
        if isinstance(value, (Tensor, torch.Generator)):
            yield path, value
            return
        if not isinstance(value, (Stateful, torch.nn.Module, list, tuple, dict)) or id(value) in seen:
            return
        if is_held and isinstance(value, StateRoot):
            return
        seen[id(value)] = value
        children: Iterable[tuple[Any, Any]]
        if isinstance(value, Stateful):
            for name in _state_fields(type(value)):
                yield _join(path, name), _Field(value, name)
            children = value._state_items()
            is_held = True
        elif isinstance(value, torch.nn.Module):
            children = [*value.named_parameters(), *value.named_buffers()]
        elif isinstance(value, dict):
            children = value.items()
        else:
            children = enumerate(value)
        for name, child in children:
            yield from visit(_join(path, name), child, is_held)

    return visit("", root, False)


def _join(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


def _state_fields(cls: type) -> dict[str, None]:
    """Names that a class and its bases list in ``_state_fields``, in order of definition."""
    return {name: None for base in reversed(cls.__mro__) for name in vars(base).get("_state_fields", ())}


def _read(path: str, leaf: _Leaf) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.detach().clone()
    if isinstance(leaf, torch.Generator):
        return leaf.get_state()
    value = getattr(leaf.owner, leaf.name)
    if not _is_plain(value):
        raise TypeError(f"State field {path} must be plain Python data, got {type(value).__name__}.")
    return copy.deepcopy(value)


def _mismatch(path: str, leaf: _Leaf, value: Any) -> list[str]:
    if isinstance(leaf, _Field):
        return [] if _is_plain(value) else [f"{path}: expected plain Python data, got {type(value).__name__}"]
    expected = leaf if isinstance(leaf, Tensor) else leaf.get_state()
    if not isinstance(value, Tensor):
        return [f"{path}: expected a tensor, got {type(value).__name__}"]
    if (value.shape, value.dtype) != (expected.shape, expected.dtype):
        return [f"{path}: expected {expected.dtype} {tuple(expected.shape)}, got {value.dtype} {tuple(value.shape)}"]
    return []


def _write(leaf: _Leaf, value: Any) -> None:
    if isinstance(leaf, Tensor):
        with torch.no_grad():
            target = writable(leaf)
            target.copy_(value[tuple(slice(size) for size in target.shape)])
    elif isinstance(leaf, torch.Generator):
        leaf.set_state(value.cpu())
    else:
        setattr(leaf.owner, leaf.name, copy.deepcopy(value))


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str))
