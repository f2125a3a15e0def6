"""Selections of environments and masked in-place writes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab_core.masks import masked_copy_, masked_mean, resolve_mask

NUM_ENVS = 6


@settings(deadline=None)
@given(ids=st.lists(st.integers(0, NUM_ENVS - 1)))
def test_every_form_of_the_same_ids_gives_the_same_mask(ids):
    expected = [env in ids for env in range(NUM_ENVS)]
    mask = torch.tensor(expected)
    forms = (ids, tuple(ids), torch.tensor(ids, dtype=torch.int32), torch.tensor(ids, dtype=torch.int64), mask)
    for selection in forms:
        assert resolve_mask(selection, NUM_ENVS, "cpu").tolist() == expected


@settings(deadline=None)
@given(start=st.none() | st.integers(-8, 8), stop=st.none() | st.integers(-8, 8), step=st.integers(1, 3))
def test_slices_select_as_in_python(start, stop, step):
    selection = slice(start, stop, step)
    chosen = range(NUM_ENVS)[selection]
    assert resolve_mask(selection, NUM_ENVS, "cpu").tolist() == [env in chosen for env in range(NUM_ENVS)]


def test_none_selects_all():
    assert resolve_mask(None, NUM_ENVS, "cpu").all()


def test_out_is_overwritten_and_returned():
    out = torch.ones(NUM_ENVS, dtype=torch.bool)
    for selection in ([2], slice(2, 3), torch.tensor([2]), torch.arange(NUM_ENVS) == 2):
        out.fill_(True)
        assert resolve_mask(selection, NUM_ENVS, "cpu", out=out) is out
        assert out.tolist() == [False, False, True, False, False, False]


def test_a_mask_passes_through_without_a_copy():
    mask = torch.zeros(NUM_ENVS, dtype=torch.bool)
    assert resolve_mask(mask, NUM_ENVS, "cpu") is mask


@pytest.mark.parametrize(
    ("selection", "error", "message"),
    [
        (torch.zeros(NUM_ENVS), TypeError, r"must be int32 or int64 .* got torch.float32 \(6,\)"),
        (torch.zeros(3, dtype=torch.uint8), TypeError, "uint8"),
        (torch.zeros(NUM_ENVS + 1, dtype=torch.bool), ValueError, r"shape \(6,\), got torch.bool \(7,\)"),
        (torch.zeros(NUM_ENVS, 1, dtype=torch.bool), ValueError, r"shape \(6,\)"),
        (torch.zeros(2, 2, dtype=torch.int64), ValueError, "one-dimensional"),
        (torch.zeros(NUM_ENVS, dtype=torch.bool, device="meta"), ValueError, "is on meta, expected cpu"),
        ([0, 6], IndexError, r"id 6 is out of range 0 .. 5"),
        (torch.tensor([-1]), IndexError, "id -1 is out of range"),
        ([True, False], TypeError, "a mask must be a bool tensor"),
        ([1.0], TypeError, "must be ints, got 1.0"),
        ("all", TypeError, "got str"),
        (3, TypeError, "got int"),
    ],
)
def test_wrong_selections_are_refused(selection, error, message):
    out = torch.ones(NUM_ENVS, dtype=torch.bool)
    with pytest.raises(error, match=message):
        resolve_mask(selection, NUM_ENVS, "cpu", out=out)
    assert out.all(), "a refused selection must not touch the buffer"


@pytest.mark.parametrize("shape", [(NUM_ENVS,), (NUM_ENVS, 3), (NUM_ENVS, 2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_masked_copy_touches_the_selected_rows_only(shape, dtype):
    dst = torch.randint(0, 2, shape).to(dtype)
    src = 1 - torch.randint(0, 2, shape)
    mask = torch.arange(NUM_ENVS) % 2 == 0
    before, address = dst.clone(), dst.data_ptr()
    assert masked_copy_(dst, src, mask) is dst
    assert dst.data_ptr() == address
    assert torch.equal(dst[mask], src.to(dtype)[mask])
    assert torch.equal(dst[~mask], before[~mask])


def test_masked_copy_keeps_unselected_nan_and_negative_zero():
    dst = torch.tensor([float("nan"), -0.0, 5.0])
    masked_copy_(dst, 1.0, torch.tensor([False, False, True]))
    masked_copy_(dst, torch.full((3,), 2.0), torch.tensor([False, False, True]))
    assert dst[0].isnan() and torch.signbit(dst[1]) and dst[2] == 2.0


def test_masked_copy_replaces_nan_and_takes_a_shared_row():
    dst = torch.full((3, 2), float("nan"))
    masked_copy_(dst, torch.tensor([1.0, 2.0]), torch.tensor([True, False, True]))
    assert dst[[0, 2]].tolist() == [[1.0, 2.0], [1.0, 2.0]] and dst[1].isnan().all()


def test_masked_copy_into_a_column_with_a_strided_mask():
    base, dones = torch.zeros(3, 4), torch.tensor([[True, False], [False, True], [False, True]])
    masked_copy_(base[:, 1], torch.tensor([1.0, 2.0, 3.0]), dones[:, 1])
    assert base[:, 1].tolist() == [0.0, 2.0, 3.0] and base.sum() == 5.0


def test_masked_copy_refuses_a_larger_source():
    dst = torch.zeros(3, 1)
    with pytest.raises(RuntimeError):
        masked_copy_(dst, torch.zeros(3, 4), torch.ones(3, dtype=torch.bool))
    assert dst.shape == (3, 1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.floats(-100.0, 100.0, width=32)), min_size=1))
def test_masked_mean_matches_python(rows):
    mask = torch.tensor([selected for selected, _ in rows])
    values = torch.tensor([value if selected else float("nan") for selected, value in rows])
    chosen = [value for selected, value in rows if selected]
    expected = sum(chosen) / len(chosen) if chosen else 0.0
    assert masked_mean(values, mask).item() == pytest.approx(expected, rel=1e-5, abs=1e-4)


def test_masked_mean_of_flags_and_of_rows():
    mask = torch.tensor([True, True, False])
    assert masked_mean(torch.tensor([True, False, True]), mask) == 0.5
    assert masked_mean(torch.tensor([[1, 2], [3, 4], [9, 9]]), mask).tolist() == [2.0, 3.0]
