"""Does a masked reset touch only what it may? Answered for every buffer that the object owns, found by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from lab_core.state import named_tensors, writable


def check_masked_reset(obj: Any, reset: Callable[[Tensor], Any], num_envs: int, keep: Collection[str] = ()) -> set[str]:
    """Check that ``reset(mask)`` leaves the rows of other environments bitwise unchanged, in place.

    All tensors of the state of ``obj`` that have an axis of length N (the first such axis counts) are filled with
    markers. Then ``reset`` is called with no environment selected, with each one alone, with every second one and with
    all, each time from fresh markers. Two sets of markers are used, so that a constant written into the wrong row
    shows whatever it is. In the end every tensor has its old value.

    Args:
        obj: :class:`~lab_core.state.Stateful`, or list, tuple or dict of such.
        reset: The reset under test; takes the bool mask ``(N,)``.
        num_envs: Number of environments N, at least 2, best a number that is the size of nothing else.
        keep: Paths of buffers to check without filling them, for instance an index that ``reset`` follows.

    Returns:
        Paths of the buffers in which the full reset changed every row. What a reset must clear belongs in there:
        ``assert {"sum", "last_action"} <= check_masked_reset(...)``.

    Raises:
        AssertionError: A row outside the mask changed, a buffer was replaced by another tensor, or the mask was
            written to; names the buffer and the rows.
        ValueError: There is nothing to check: fewer than 2 environments, or no buffer with N rows.
    """
    buffers = _rows_by_path(obj, num_envs)
    if num_envs < 2 or not buffers:
        raise ValueError(f"Found no buffer with {num_envs} rows (at least 2) in {type(obj).__name__}.")
    device = next(iter(buffers.values())).device
    env_ids = torch.arange(num_envs, device=device)
    selections = [env_ids < 0, *(env_ids == env for env in range(num_envs)), env_ids % 2 == 0, env_ids >= 0]
    changed_by_full_reset = {path: torch.zeros(num_envs, dtype=torch.bool, device=device) for path in buffers}

    with _restored(obj):
        for marker_set in range(2):
            for selection in selections:
                for path, rows in buffers.items():
                    if path not in keep:
                        rows.copy_(_markers(rows, marker_set))
                before = {path: rows.clone() for path, rows in buffers.items()}
                mask = selection.clone()
                reset(mask)
                _check_mask(mask, selection)
                _check_addresses(buffers, _rows_by_path(obj, num_envs))
                for path, rows in buffers.items():
                    changed = _changed_rows(before[path], rows)
                    _check_rows(path, changed, selection)
                    if selection.all():
                        changed_by_full_reset[path] |= changed
    return {path for path, changed in changed_by_full_reset.items() if changed.all()}


def _rows_by_path(obj: Any, num_envs: int) -> dict[str, Tensor]:
    """Views ``(N, ...)`` of the tensors with one row per environment."""
    buffers = {}
    for path, tensor in named_tensors(obj).items():
        if num_envs in tensor.shape and tensor.numel() > 0:
            rows = writable(tensor.detach().movedim(tensor.shape.index(num_envs), 0))
            if rows.shape[0] == num_envs:  # else the rows are one shared, expanded row
                buffers[path] = rows
    return buffers


def _markers(rows: Tensor, marker_set: int) -> Tensor:
    """Values that differ between the two sets, and for floats also between elements."""
    if not rows.is_floating_point():
        # small, since an integer may be an index; it can only show a change in one of the two sets
        return torch.full_like(rows, marker_set)
    ramp = torch.linspace(1.1, 1.9, rows.numel(), device=rows.device).to(rows.dtype).reshape(rows.shape)
    return ramp if marker_set == 0 else -2.0 * ramp


def _changed_rows(before: Tensor, after: Tensor) -> Tensor:
    return (_bytes(before) != _bytes(after)).any(dim=1)


def _bytes(rows: Tensor) -> Tensor:
    return rows.reshape(rows.shape[0], -1).contiguous().view(torch.uint8)


def _check_mask(mask: Tensor, selection: Tensor) -> None:
    if not torch.equal(mask, selection):
        raise AssertionError(f"The reset changed its mask from {selection.tolist()} to {mask.tolist()}.")


def _check_addresses(before: dict[str, Tensor], after: dict[str, Tensor]) -> None:
    for path, rows in before.items():
        if path not in after or after[path].data_ptr() != rows.data_ptr():
            raise AssertionError(f"The reset replaced buffer {path!r} by another tensor instead of writing in place.")


def _check_rows(path: str, changed: Tensor, selection: Tensor) -> None:
    wrong = changed & ~selection
    if wrong.any():
        rows, selected = (mask.nonzero().flatten().tolist() for mask in (wrong, selection))
        raise AssertionError(f"A reset of environments {selected} changed buffer {path!r} in environments {rows}.")


@contextmanager
def _restored(obj: Any) -> Iterator[None]:
    tensors = named_tensors(obj)
    saved = {path: tensor.detach().clone() for path, tensor in tensors.items()}
    try:
        yield
    finally:
        with torch.no_grad():
            for path, tensor in tensors.items():
                target = writable(tensor)
                target.copy_(saved[path][tuple(slice(size) for size in target.shape)])
