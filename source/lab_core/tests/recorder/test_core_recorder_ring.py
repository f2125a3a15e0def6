"""The ring of episodes and its bookkeeping, against plain Python lists."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab_core.datasets.episode import nested
from lab_core.masks import masked_copy_
from lab_core.recorder import MaskedRows, RecorderError, RecordField
from lab_core.recorder.config import PHASES
from lab_core.recorder.monitor import CopyEvent, EndMonitor
from lab_core.recorder.ring import EpisodeRing, ring_bytes
from lab_core.recorder.rows import RowLayout
from lab_core.recorder.transition import TransitionBuffers
from lab_core.testing import check_masked_reset

CPU = torch.device("cpu")


class Ring:
    """A ring with a value per step and one per beginning, which tell environment and step."""

    def __init__(self, num_envs: int, capacity: int, lag: int) -> None:
        self.num_envs = num_envs
        self.steps = RowLayout([RecordField("x", (2,), torch.float32, "post_step")])
        self.starts = RowLayout([RecordField("x0", (), torch.int64, "post_reset")])
        self.step_rows = self.steps.allocate(num_envs, device=CPU)
        self.start_rows = self.starts.allocate(num_envs, device=CPU)
        self.ring = EpisodeRing(self.steps, self.step_rows, self.starts, self.start_rows, capacity, lag)

    def insert(self, step: int) -> None:
        x = self.step_value(step)
        self.steps.views(self.step_rows)["x"].copy_(x)
        self.ring.insert()

    def start(self, step: int, mask: torch.Tensor) -> None:
        masked_copy_(self.starts.views(self.start_rows)["x0"], 1000 * step + torch.arange(self.num_envs), mask)
        self.ring.start_episodes(mask)

    def step_value(self, step: int) -> torch.Tensor:
        x = 1000.0 * step + torch.arange(self.num_envs)
        return torch.stack([x, -x], dim=1)

    def gather(self, *places) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        steps, initial = self.ring.gather(*places)
        return {key: value for rows in steps for key, value in rows.views().items()}, initial.views()["x0"]


@settings(max_examples=30, deadline=None)
@given(
    num_envs=st.integers(1, 5),
    capacity=st.integers(1, 7),
    lag=st.integers(0, 4),
    ends=st.lists(st.integers(0, 31), min_size=1, max_size=40),
)
def test_every_episode_is_what_a_list_would_hold(num_envs, capacity, lag, ends):
    """Each number of ``ends`` holds one bit per environment: whether it ends in this step. Episodes are read ``lag``
    steps after they have ended, when their environment may have begun others."""
    ring = Ring(num_envs, capacity, lag)
    ring.start(0, torch.ones(num_envs, dtype=torch.bool))
    lists = [[] for _ in range(num_envs)]
    begun = [[0] for _ in range(num_envs)]
    waiting = []
    for step, bits in enumerate(ends):
        ring.insert(step)
        done = [bool(bits >> env_id & 1) for env_id in range(num_envs)]
        for env_id in range(num_envs):
            lists[env_id].append(ring.step_value(step)[env_id])
            if done[env_id]:
                waiting.append((step, env_id, lists[env_id], len(begun[env_id]) - 1, begun[env_id][-1]))
                lists[env_id] = []
                begun[env_id].append(step + 1)
        ring.start(step + 1, torch.tensor(done))
        assert ring.ring.length.tolist() == [len(items) for items in lists]
        assert first_values(ring) == [items[-capacity:][0][0] if items else None for items in lists]
        ready = [item for item in waiting if item[0] == step - lag]
        if ready:
            lengths = [min(len(rows), capacity) for _, _, rows, _, _ in ready]
            steps, x0 = ring.gather(
                [env_id for _, env_id, *_ in ready],
                [end for end, *_ in ready],
                lengths,
                [start for *_, start, _ in ready],
            )
            expected = torch.stack([row for _, _, rows, _, _ in ready for row in rows[-capacity:]])
            assert torch.equal(steps["x"], expected)
            assert x0.tolist() == [1000 * first + env_id for _, env_id, _, _, first in ready]


def first_values(ring: Ring) -> list:
    """What lies in the first slot of every running episode."""
    x, start = ring.ring.steps["x"], ring.ring.start.tolist()
    return [x[start[env_id], env_id, 0] if ring.ring.length[env_id] else None for env_id in range(ring.num_envs)]


def test_buffers_keep_their_addresses_and_the_stated_size():
    ring = Ring(3, 4, 1)
    tensors = [*ring.ring.steps.values(), ring.ring._initial_rows, ring.ring.cursor, ring.ring.length]
    before = [tensor.data_ptr() for tensor in tensors]
    for step in range(9):
        ring.insert(step)
        ring.start(step, torch.tensor([True, False, True]))
    assert [tensor.data_ptr() for tensor in tensors] == before
    assert ring.ring.num_bytes == ring_bytes(ring.steps, ring.starts, 3, 4, 1) == 3 * 8 * (4 + 1) + 3 * 8 * 3


def test_beginning_an_episode_leaves_other_environments_alone():
    ring = Ring(7, 4, 1)
    ring.start(0, torch.ones(7, dtype=torch.bool))
    state = {**ring.ring.steps, "length": ring.ring.length}
    changed = check_masked_reset(state, lambda mask: ring.start(3, mask), 7)
    assert "length" in changed and "x" not in changed
    ring = Ring(7, 4, 1)
    ring.start(0, torch.ones(7, dtype=torch.bool))
    for step in range(1, 9):
        before, mask = ring.ring._initial_rows.clone(), torch.arange(7) % 3 == step % 3
        ring.start(step, mask)
        assert (ring.ring._initial_rows == before).all(0)[~mask].all()
        assert not (ring.ring._initial_rows == before).all(0)[mask].any()


def test_amended_values_reach_only_the_latest_step_of_the_chosen_environments():
    ring = Ring(3, 4, 0)
    ring.start(0, torch.ones(3, dtype=torch.bool))
    ring.ring.add(RecordField("note", (), torch.float32, "post_step", masked=True))
    for step in range(6):
        ring.insert(step)
        if step % 2:
            ring.ring.amend("note", torch.full((3,), float(step)), torch.tensor([True, False, True]))
    steps, _ = ring.gather([0, 1], [5, 5], [4, 4], [0, 0])
    assert steps["note"].tolist() == [0, 3, 0, 5] + [0, 0, 0, 0]
    assert steps["valid/note"].tolist() == [False, True, False, True] + [False] * 4


@settings(max_examples=50, deadline=None)
@given(
    fields=st.lists(
        st.tuples(
            st.lists(st.integers(0, 3), max_size=3),
            st.sampled_from([torch.bool, torch.uint8, torch.float16, torch.int32, torch.float32, torch.float64]),
            st.booleans(),
        ),
        max_size=6,
    ),
    lead=st.lists(st.integers(1, 3), min_size=1, max_size=2),
)
def test_packed_rows_hold_every_shape_and_type_apart(fields, lead):
    layout = RowLayout(
        [RecordField(f"f{i}", tuple(shape), dtype, "post_step", mask) for i, (shape, dtype, mask) in enumerate(fields)]
    )
    rows = layout.allocate(*lead, device=CPU)
    views = layout.views(rows)
    generator = torch.Generator().manual_seed(0)
    written = {}
    for key, view in views.items():
        value = torch.randint(0, 2, view.shape, generator=generator).to(view.dtype)
        view.copy_(value)
        written[key] = value
    assert len(views) == len(fields) + sum(mask for *_, mask in fields)
    for key, view in layout.views(rows.clone()).items():
        assert view.shape == (*lead, *written[key].shape[len(lead) :]) and torch.equal(view, written[key])
    used = sum(value[(0,) * len(lead)].nbytes for value in written.values())
    assert used <= layout.row_bytes < used + 8


def test_monitor_hands_out_every_step_in_order():
    monitor = EndMonitor(2, CPU, lag=0)
    taken = []
    for step in range(5):
        monitor.push(torch.tensor([step, 10 + step], dtype=torch.int32))
        taken += [(number, codes.tolist()) for number, codes in monitor.take()]
    assert taken == [(step, [step, 10 + step]) for step in range(5)]


class Device:
    """Does the copies that it is given in order, when it gets to them; ``events`` stands in for :class:`CopyEvent`."""

    def __init__(self) -> None:
        self.given = self.done = self.waits = 0

    def event(self, _: torch.device) -> CopyEvent:
        device = self

        class Event(CopyEvent):
            def record(self) -> None:
                device.given += 1
                self.number = device.given

            def arrived(self) -> bool:
                return device.done >= self.number

            def wait(self) -> None:
                device.waits += 1
                device.done = max(device.done, self.number)

        return Event(CPU)


@given(progress=st.lists(st.integers(0, 3), min_size=1, max_size=40), lag=st.integers(0, 5))
def test_the_host_waits_for_a_device_only_when_it_is_too_far_ahead(progress, lag):
    """``progress``: copies that the device gets done after each step."""
    device, taken = Device(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lab_core.recorder.monitor.CopyEvent", device.event)
        monitor = EndMonitor(1, CPU, lag)
    for step, copies in enumerate(progress):
        monitor.push(torch.tensor([100 + step], dtype=torch.int32))
        done = device.done = min(device.given, device.done + copies)
        waits = device.waits
        taken += [(number, int(codes)) for number, (codes,) in monitor.take()]
        must = max(done, step + 1 - lag)  # codes that the buffer has no place for beside those of the next step
        assert taken == [(number, 100 + number) for number in range(must)]
        assert device.waits - waits == must - done
    taken += [(number, int(codes)) for number, (codes,) in monitor.take(wait=True)]
    assert taken == [(number, 100 + number) for number in range(len(progress))]


TYPES = [torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.int32, torch.float32, torch.int64, torch.float64]


@settings(max_examples=50, deadline=None)
@given(
    fields=st.lists(
        st.tuples(
            st.lists(st.integers(0, 3), max_size=2), st.sampled_from(TYPES), st.sampled_from(PHASES), st.booleans()
        ),
        max_size=8,
    ),
    seed=st.integers(0, 2**16),
)
def test_what_is_written_together_arrives_byte_for_byte(fields, seed):
    """Values of every type, also those that are parts of a larger tensor, by one write per phase."""
    generator = torch.Generator().manual_seed(seed)
    values = {}
    for i, (shape, dtype, _, part) in enumerate(fields):
        whole = torch.randint(0, 256, (3, 2 if part else 1, *shape, dtype.itemsize), generator=generator)
        limit = 2 if dtype == torch.bool else 256
        values[f"f{i}"] = (whole % limit).to(torch.uint8).view(dtype)[:, 0].squeeze(-1)
    buffers = TransitionBuffers(3, CPU)
    for (*_, phase, _), (key, value) in zip(fields, values.items(), strict=True):
        buffers.declare(key, torch.zeros_like(value), phase)
    buffers.allocate()
    for phase in PHASES:
        buffers.write({key: value for key, value in values.items() if buffers.fields[key].phase == phase})
    buffers.begin(torch.tensor([True, False, True]))
    for key, value in values.items():
        env_ids = [0, 2] if buffers.fields[key].phase == "post_reset" else [0, 1, 2]
        assert same_bytes(buffers.values[key][env_ids], value[env_ids])


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    a, b = (x.clone(memory_format=torch.contiguous_format).reshape(-1) for x in (a, b))
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def write(buffers: TransitionBuffers, key: str, value) -> None:
    buffers.write(buffers.checked(key, value))


class TestTransitionBuffers:
    def make(self, **terms) -> TransitionBuffers:
        buffers = TransitionBuffers(2, CPU)
        for key, value in terms.items():
            buffers.declare(key, value, "post_step")
        buffers.allocate()
        return buffers

    def test_nested_values_become_paths(self):
        buffers = self.make(a={"b": torch.zeros(2, 3), "c": {"d": torch.zeros(2, dtype=torch.int64)}})
        write(buffers, "a", {"b": torch.ones(2, 3), "c": {"d": torch.tensor([4, 5])}})
        assert buffers.fields["a/c/d"].dtype == torch.int64 and buffers.fields["a/b"].shape == (3,)
        assert buffers.values["a/c/d"].tolist() == [4, 5]
        assert nested(buffers.values)["a"]["b"].sum() == 6

    def test_masked_rows_keep_what_they_held_and_say_so(self):
        buffers = self.make(a=MaskedRows(torch.zeros(2), torch.zeros(2, dtype=torch.bool)))
        write(buffers, "a", MaskedRows(torch.tensor([1.0, 2.0]), torch.tensor([True, True])))
        write(buffers, "a", MaskedRows(torch.tensor([3.0, 4.0]), torch.tensor([False, True])))
        assert buffers.values["a"].tolist() == [1.0, 4.0]
        assert buffers.values["valid/a"].tolist() == [False, True]

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (torch.zeros(3), r"'a' must be a tensor \(2,\), got \(3,\)"),
            (torch.zeros(2, 1), r"'a' must be a tensor \(2,\), got \(2, 1\)"),
            (1.0, "got float"),
            ({"b": torch.zeros(2)}, r"must hold \['a'\] as in the first call, got \['a/b'\]"),
            (MaskedRows(torch.zeros(2), torch.ones(2, dtype=torch.bool)), "in every step or in none"),
        ],
    )
    def test_a_changed_form_is_refused(self, value, message):
        with pytest.raises(RecorderError, match=message):
            self.make(a=torch.zeros(2)).checked("a", value)

    @pytest.mark.parametrize(
        ("terms", "message"),
        [
            ({"a": torch.zeros(3)}, r"'a' must be a tensor \(2, ...\), got \(3,\)"),
            ({"a": torch.zeros(())}, "must be a tensor"),
            ({"a/b": torch.zeros(2), "a": torch.zeros(2)}, "'a/b' and 'a' exclude each other"),
            ({"a": torch.zeros(2), "a/b": torch.zeros(2)}, "exclude each other"),
            ({"valid/a": torch.zeros(2)}, "must not begin with 'valid/'"),
            ({"a//b": torch.zeros(2)}, "part that is empty"),
        ],
    )
    def test_impossible_keys_and_shapes_are_refused(self, terms, message):
        with pytest.raises(RecorderError, match=message):
            self.make(**terms)
