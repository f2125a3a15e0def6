"""State of nested objects: what is found, restored in place, and refused."""

from __future__ import annotations

import copy
import types

import pytest
import torch

from lab_core.state import StateError, Stateful, StateRoot, named_tensors


class Timer(Stateful):
    _state_fields = ("count", "ranges")

    def __init__(self, env: object = None):
        self._env = env
        self.time_left = torch.arange(3.0)
        self.count = 7
        self.ranges = [(0.0, 1.0)]
        self.ignored = 5


class Manager(StateRoot):
    _state_fields = ("step",)

    def __init__(self):
        self.generator = torch.Generator().manual_seed(3)
        self.terms = {"push": Timer(env=self), "walk": Timer(env=self)}
        self.pair = (torch.zeros(2), [torch.ones(2, dtype=torch.int64)])
        self.network = torch.nn.Linear(2, 2)
        self.norm = torch.nn.BatchNorm1d(2)
        self.rows = self.scratch(torch.zeros(4))
        self.parent = self
        self.latest = types.SimpleNamespace(rows=torch.zeros(2))
        self.step = 0
        self.config = object()


class LoggingManager(Manager):
    _state_fields = ("level",)

    def __init__(self):
        super().__init__()
        self.log = self.scratch({"a": torch.zeros(1)})
        self.level = "easy"


def test_the_walk_finds_what_is_state_and_nothing_else():
    assert set(LoggingManager().state_dict()) == {
        "generator",
        "level",
        "network.bias",
        "network.weight",
        "norm.bias",
        "norm.num_batches_tracked",
        "norm.running_mean",
        "norm.running_var",
        "norm.weight",
        "pair.0",
        "pair.1.0",
        "step",
        *(f"terms.{term}.{name}" for term in ("push", "walk") for name in ("count", "ranges", "time_left")),
    }


def test_a_term_does_not_lead_up_to_its_environment():
    assert set(Manager().terms["push"].state_dict()) == {"count", "ranges", "time_left"}


def test_a_root_is_entered_where_the_walk_begins_and_from_no_other_object():
    class Holder(Stateful):
        def __init__(self, manager: Manager):
            self.manager = manager
            self.managers = {"one": manager, "more": [manager]}
            self.left = torch.zeros(1)

    manager = Manager()
    assert set(Holder(manager).state_dict()) == {"left"}
    assert {f"env.{name}" for name in named_tensors(manager)} == set(named_tensors({"env": manager}))


class Worker(Stateful):
    class Part(Stateful):
        def __init__(self):
            self.declared = self.scratch([torch.zeros(1)])
            self.forgotten = [torch.zeros(1)]

    _state_fields = ("count",)

    def __init__(self):
        self.rows = self.scratch(torch.zeros(2))
        self.views = self.scratch({"rows": torch.zeros(3), "more": [torch.zeros(1)]})
        self.helper = self.scratch(Timer())
        self.first, self.second = self.scratch(torch.zeros(1)), self.scratch(torch.zeros(1))
        self.kept = {"a": torch.zeros(2), "b": torch.zeros(2)}
        self.deep = {"inner": [Worker.Part(), Worker.Part()]}
        self.inner = Timer()
        self.count = 0


_WORKER = {
    *("count", "kept.a", "kept.b", "inner.count", "inner.ranges", "inner.time_left"),
    *("deep.inner.0.forgotten.0", "deep.inner.1.forgotten.0"),
}


def test_scratch_is_left_out_of_the_state_and_what_nobody_declared_is_in_it():
    assert set(Worker().state_dict()) == _WORKER


def test_a_value_that_replaces_scratch_is_state():
    worker = Worker()
    worker.rows = torch.ones(2)
    worker.helper = Timer()
    assert set(worker.state_dict()) == _WORKER | {"rows", "helper.count", "helper.ranges", "helper.time_left"}
    worker.rows = worker.scratch(torch.ones(2))
    assert "rows" not in worker.state_dict()


def test_scratch_is_that_of_its_owner_and_its_values_keep_their_elements():
    worker, other = Worker(), Worker()
    worker.views["rows"].fill_(7.0)
    other.shared = worker.rows
    assert set(worker.state_dict()) == _WORKER and set(other.state_dict()) == _WORKER | {"shared"}
    assert torch.equal(worker.views["rows"], torch.full((3,), 7.0))


def test_a_copy_keeps_its_scratch():
    worker = copy.deepcopy(Worker())
    assert set(worker.state_dict()) == _WORKER
    worker.load_state_dict(Worker().state_dict())


def test_a_base_class_can_declare_scratch_before_it_is_initialised():
    class Late(Worker):
        def __init__(self):
            self.early = self.scratch(torch.zeros(1))
            super().__init__()
            self.late = torch.zeros(1)

    assert set(Late().state_dict()) == _WORKER | {"late"}


def _change(manager: Manager) -> None:
    for tensor in named_tensors(manager).values():
        tensor.data.fill_(1)
    torch.rand(5, generator=manager.generator)
    manager.step += 1
    manager.terms["push"].count += 1
    manager.terms["push"].ranges[0] = (5.0, 6.0)


def test_resume_through_a_file_is_exact_and_in_place(tmp_path):
    saved = Manager()
    saved.step, saved.terms["walk"].count = 11, 99
    saved.terms["push"].time_left.uniform_()
    torch.rand(3, generator=saved.generator)
    torch.save(saved.state_dict(), tmp_path / "state.pt")

    resumed = Manager()
    addresses = {path: tensor.data_ptr() for path, tensor in named_tensors(resumed).items()}
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))

    assert {path: tensor.data_ptr() for path, tensor in named_tensors(resumed).items()} == addresses
    expected = named_tensors(saved)
    assert all(torch.equal(tensor, expected[path]) for path, tensor in named_tensors(resumed).items())
    assert (resumed.step, resumed.terms["walk"].count) == (11, 99)
    assert torch.equal(torch.rand(4, generator=resumed.generator), torch.rand(4, generator=saved.generator))


def test_a_saved_state_is_a_copy():
    manager = Manager()
    state = manager.state_dict()
    _change(manager)
    fresh = Manager().state_dict()
    assert state["step"] == 0 and state["terms.push.ranges"] == [(0.0, 1.0)]
    assert torch.equal(state["terms.push.time_left"], torch.arange(3.0))
    assert torch.equal(state["generator"], fresh["generator"])


def test_a_loaded_state_is_a_copy():
    manager = Manager()
    state = manager.state_dict()
    manager.load_state_dict(state)
    manager.terms["push"].ranges.append((2.0, 3.0))
    assert state["terms.push.ranges"] == [(0.0, 1.0)]


def test_mismatches_are_listed_together_and_change_nothing():
    manager = Manager()
    state = Manager().state_dict()
    _change(manager)
    before = manager.state_dict()
    del state["step"]
    state["terms.fly.count"] = 1
    state["pair.0"] = torch.zeros(3)
    state["pair.1.0"] = torch.ones(2)
    state["network.bias"] = 4
    state["terms.push.count"] = torch.zeros(())
    with pytest.raises(StateError) as error:
        manager.load_state_dict(state)
    for line in (
        "does not fit Manager",
        "step: missing",
        "terms.fly.count: unknown",
        "pair.0: expected torch.float32 (2,), got torch.float32 (3,)",
        "pair.1.0: expected torch.int64 (2,), got torch.float32 (2,)",
        "network.bias: expected a tensor, got int",
        "terms.push.count: expected plain Python data, got Tensor",
    ):
        assert line in str(error.value)
    after = manager.state_dict()
    assert all(
        torch.equal(value, after[path]) if isinstance(value, torch.Tensor) else value == after[path]
        for path, value in before.items()
    )


def test_fields_must_be_plain_data():
    timer = Timer()
    timer.ranges = [object()]
    with pytest.raises(TypeError, match="field ranges must be plain"):
        timer.state_dict()


def test_shared_and_expanded_memory_is_restored():
    class Views(Stateful):
        def __init__(self):
            self.base = torch.zeros(3, 4)
            self.column = self.base[:, 1]
            self.per_env = torch.zeros(2).expand(3, 2)

    saved, resumed = Views(), Views()
    saved.base.uniform_()
    saved.per_env[0].uniform_()
    resumed.load_state_dict(saved.state_dict())
    assert torch.equal(resumed.base, saved.base) and torch.equal(resumed.per_env, saved.per_env)
    assert resumed.column.data_ptr() == resumed.base.data_ptr() + 4


def test_properties_and_extra_items_can_be_state():
    class Foreign(Stateful):
        _state_fields = ("weight",)

        def __init__(self):
            self._memory = {"weight": 1.0}
            self._hidden = memoryview(bytearray(8))

        @property
        def weight(self) -> float:
            return self._memory["weight"]

        @weight.setter
        def weight(self, value: float) -> None:
            self._memory["weight"] = value

        def _state_items(self):
            return [*super()._state_items(), ("hidden", torch.frombuffer(self._hidden, dtype=torch.float32))]

    saved, resumed = Foreign(), Foreign()
    saved.weight = 3.0
    torch.frombuffer(saved._hidden, dtype=torch.float32).fill_(2.0)
    resumed.load_state_dict(saved.state_dict())
    assert resumed.weight == 3.0 and bytes(resumed._hidden) == bytes(saved._hidden)
