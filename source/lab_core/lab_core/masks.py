"""Selection of environments: one bool mask ``(N,)`` and the in-place writes that respect it.

Everything that runs in a step takes a mask. Index lists exist only at the public edge, where
:func:`resolve_mask` turns them into a mask once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

EnvSelection: TypeAlias = None | slice | Sequence[int] | Tensor
"""What a user may pass to select environments: None (all), slice, ids, id tensor or bool mask ``(N,)``."""


def resolve_mask(
    selection: EnvSelection, num_envs: int, device: torch.device | str, out: Tensor | None = None
) -> Tensor:
    """Turn a selection of environments into a bool mask.

    A bool mask costs no host synchronisation; ids are range-checked on the host, so pass a mask in code that
    runs every step.

    Args:
        selection: None (all), slice, list or tuple of ids, int32 or int64 tensor of ids, or bool tensor ``(N,)``.
            Ids may repeat, may be empty and must lie in ``0 .. num_envs - 1``.
        num_envs: Number of environments N.
        device: Device of the mask. A tensor selection must already be there.
        out: Persistent bool buffer ``(N,)`` that receives the mask.

    Returns:
        Bool mask ``(N,)``: ``out`` if given, the selection itself if it already is a mask, else a new tensor.

    Raises:
        TypeError: The selection has an unsupported type or dtype.
        ValueError: A mask has the wrong length, ids are not one-dimensional, or a tensor is on the wrong device.
        IndexError: An id is out of range.
    """
    device = torch.device(device)
    if out is not None and (out.dtype != torch.bool or out.shape != (num_envs,)):
        raise ValueError(f"out must be a bool tensor ({num_envs},), got {_describe(out)}.")
    if isinstance(selection, Tensor):
        _check_device(selection, device)
        if selection.dtype == torch.bool:
            if selection.shape != (num_envs,):
                raise ValueError(f"An environment mask must have shape ({num_envs},), got {_describe(selection)}.")
            return selection if out is None else out.copy_(selection)
    elif selection is not None and not isinstance(selection, slice):
        selection = _ids_from_sequence(selection, device)
    if isinstance(selection, Tensor):
        _check_ids(selection, num_envs)

    mask = torch.empty(num_envs, dtype=torch.bool, device=device) if out is None else out
    if selection is None:
        return mask.fill_(True)
    mask.fill_(False)
    if isinstance(selection, slice):
        mask[selection] = True
        return mask
    return mask.index_fill_(0, selection.long(), True)


def masked_copy_(dst: Tensor, src: Tensor | float, mask: Tensor) -> Tensor:
    """Write ``src`` into the selected rows of ``dst`` in place; the other rows stay bitwise unchanged.

    Args:
        dst: Buffer ``(N, ...)``.
        src: Scalar, or tensor that broadcasts to ``dst``: ``(N, ...)`` row by row, ``(...)`` the same in each row.
            Converted to the dtype of ``dst``, as :meth:`torch.Tensor.copy_` does.
        mask: Bool mask ``(N,)``.

    Returns:
        ``dst``.

    Raises:
        RuntimeError: ``src`` does not broadcast to ``dst``.
    """
    rows = expand_mask(mask, dst)
    if not isinstance(src, Tensor):
        return dst.masked_fill_(rows, src)
    # This and expand_mask() run dozens of times per step: torch is called only where there is something to do.
    return torch.where(rows, src if src.dtype == dst.dtype else src.to(dst.dtype), dst, out=dst)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the selected environments without host synchronisation.

    Args:
        values: ``(N, ...)``. Non-finite values in rows that are not selected do not matter.
        mask: Bool mask ``(N,)``.

    Returns:
        New floating-point tensor ``(...)``; 0 if no environment is selected.
    """
    if not values.is_floating_point():
        values = values.to(torch.get_default_dtype())
    total = torch.where(expand_mask(mask, values), values, 0.0).sum(dim=0)
    return total / mask.sum().clamp(min=1)


def expand_mask(mask: Tensor, values: Tensor) -> Tensor:
    """View of a mask ``(N,)`` as ``(N, 1, ...)`` that broadcasts against ``values`` ``(N, ...)``."""
    dims = values.dim()
    if dims == 1:
        return mask
    return mask.unsqueeze(1) if dims == 2 else mask.reshape(mask.shape[0], *(1,) * (dims - 1))


def _ids_from_sequence(ids: Sequence[int], device: torch.device) -> Tensor:
    if not isinstance(ids, Sequence) or isinstance(ids, str):
        raise TypeError(
            "Environments are selected by None, slice, list of ids, id tensor or bool mask tensor,"
            f" got {type(ids).__name__}."
        )
    for env_id in ids:
        # a list of bools would pass as the ids 0 and 1
        if isinstance(env_id, bool) or not isinstance(env_id, int):
            raise TypeError(f"Environment ids must be ints, got {env_id!r}; a mask must be a bool tensor.")
    return torch.tensor(list(ids), dtype=torch.int64, device=device)


def _check_ids(ids: Tensor, num_envs: int) -> None:
    if ids.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"Environment ids must be int32 or int64 and a mask must be bool, got {_describe(ids)}.")
    if ids.dim() != 1:
        raise ValueError(f"Environment ids must be one-dimensional, got {_describe(ids)}.")
    if ids.numel() == 0:
        return
    low, high = (int(bound) for bound in ids.aminmax())
    if low < 0 or high >= num_envs:
        raise IndexError(f"Environment id {low if low < 0 else high} is out of range 0 .. {num_envs - 1}.")


def _check_device(selection: Tensor, device: torch.device) -> None:
    given = selection.device
    same_index = given.index == device.index or None in (given.index, device.index)
    if given.type != device.type or not same_index:
        raise ValueError(f"The environment selection is on {given}, expected {device}.")


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}"
