"""Noise and modifiers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab_core.errors import ConfigError
from lab_core.seeding import make_generator
from lab_core.signals import (
    BiasModifierCfg,
    ClipModifierCfg,
    ConstantNoiseCfg,
    DigitalFilterCfg,
    GaussianNoiseCfg,
    IntegratorCfg,
    NoiseWithBiasCfg,
    ScaleModifierCfg,
    UniformNoiseCfg,
)

N, D = 4, 3
ALL = torch.ones(N, dtype=torch.bool)
NONE = torch.zeros(N, dtype=torch.bool)
ROW_1 = torch.arange(N) == 1

NOISES = {
    "constant": ConstantNoiseCfg(bias=0.5),
    "uniform": UniformNoiseCfg(n_min=-0.2, n_max=0.4),
    "gaussian": GaussianNoiseCfg(mean=0.1, std=0.3),
    "uniform_with_bias": NoiseWithBiasCfg(noise=UniformNoiseCfg(n_min=-0.2, n_max=0.4), bias=GaussianNoiseCfg(std=1.0)),
}
MODIFIERS = {
    "scale": ScaleModifierCfg(factor=2.0),
    "clip": ClipModifierCfg(bounds=(-0.5, 0.5)),
    "bias": BiasModifierCfg(offset=1.0),
    "filter": DigitalFilterCfg(b=(0.5, 0.2, 0.1), a=(-0.3,)),
    "integrator": IntegratorCfg(dt=0.1),
}


@pytest.mark.parametrize("name", NOISES)
def test_noise_leaves_its_input_alone_and_repeats_with_the_seed(name):
    value = torch.randn(N, D, generator=make_generator(0))
    before = value.clone()
    results = []
    for _ in range(2):
        noise, generator = NOISES[name].build(value.shape, "cpu"), make_generator(3)
        noise.reset(ALL, generator)
        results.append(noise(value, generator))
    assert torch.equal(value, before)
    assert torch.equal(*results) and not torch.equal(results[0], value)
    assert results[0].shape == value.shape and results[0].data_ptr() != value.data_ptr()


@pytest.mark.parametrize(("operation", "expected"), [("add", 2.5), ("scale", 1.0), ("abs", 0.5)])
def test_operations(operation, expected):
    noise = ConstantNoiseCfg(bias=0.5, operation=operation).build((N, D), "cpu")
    assert torch.equal(noise(torch.full((N, D), 2.0), make_generator(0)), torch.full((N, D), expected))


@pytest.mark.parametrize("operation", ["add", "scale", "abs"])
def test_absolute_noise_is_a_new_tensor_on_each_call(operation):
    noise = UniformNoiseCfg(n_min=0.0, n_max=1.0, operation=operation).build((N, D), "cpu")
    generator, value = make_generator(0), torch.ones(N, D)
    first = noise(value, generator)
    kept = first.clone()
    noise(value, generator)
    assert torch.equal(first, kept)


def test_noise_has_the_stated_distribution():
    value, generator = torch.full((100_000, 1), 3.0), make_generator(0)
    uniform = NOISES["uniform"].build(value.shape, "cpu")(value, generator) - value
    assert uniform.min() >= -0.2001 and uniform.max() <= 0.4001
    assert uniform.mean().item() == pytest.approx(0.1, abs=0.005)
    assert uniform.std().item() == pytest.approx(0.6 / 12**0.5, abs=0.005)
    gaussian = NOISES["gaussian"].build(value.shape, "cpu")(value, generator) - value
    assert gaussian.mean().item() == pytest.approx(0.1, abs=0.01)
    assert gaussian.std().item() == pytest.approx(0.3, abs=0.01)


def test_a_changed_noise_setting_acts_on_the_next_call():
    cfg = ConstantNoiseCfg(bias=1.0)
    noise = cfg.build((N, D), "cpu")
    cfg.bias = 5.0
    assert torch.equal(noise(torch.zeros(N, D), make_generator(0)), torch.full((N, D), 5.0))


def test_bias_is_kept_between_resets_and_drawn_for_the_rows_of_the_mask():
    cfg = NoiseWithBiasCfg(noise=ConstantNoiseCfg(bias=0.0), bias=UniformNoiseCfg(n_min=1.0, n_max=2.0))
    noise, generator, value = cfg.build((N, D), "cpu"), make_generator(0), torch.zeros(N, D)
    assert torch.equal(noise(value, generator), value)
    noise.reset(ALL, generator)
    first = noise(value, generator)
    assert torch.equal(noise(value, generator), first)
    assert first.min() >= 1.0 and first.max() <= 2.0 and first.unique().numel() == N * D
    noise.reset(ROW_1, generator)
    second = noise(value, generator)
    assert torch.equal(second[~ROW_1], first[~ROW_1]) and not torch.equal(second[1], first[1])


def test_bias_may_be_shared_by_the_components_of_a_row():
    cfg = NoiseWithBiasCfg(
        noise=ConstantNoiseCfg(bias=0.0), bias=UniformNoiseCfg(n_min=1.0, n_max=2.0), per_component=False
    )
    noise, generator = cfg.build((N, D, 2), "cpu"), make_generator(0)
    noise.reset(ALL, generator)
    result = noise(torch.zeros(N, D, 2), generator).flatten(1)
    assert torch.equal(result, result[:, :1].expand_as(result)) and result.unique().numel() == N


def test_random_stream_does_not_depend_on_the_rows_that_are_reset():
    after = []
    for mask in (ALL, NONE, ROW_1):
        generator = make_generator(0)
        noise = NOISES["uniform_with_bias"].build((N, D), "cpu")
        noise.reset(mask, generator)
        after.append(torch.rand((), generator=generator))
    assert after[0] == after[1] == after[2]


def test_wrong_noise_settings_are_refused():
    with pytest.raises(ConfigError, match="UniformNoiseCfg.operation .* got 'sub'"):
        UniformNoiseCfg(n_min=0.0, n_max=1.0, operation="sub")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", MODIFIERS)
def test_modifiers_leave_their_input_alone(name):
    value = torch.randn(N, D, generator=make_generator(0))
    before = value.clone()
    modifier = MODIFIERS[name].build(value.shape, "cpu")
    result = modifier(value)
    kept = result.clone()
    modifier(2.0 * value)
    assert torch.equal(value, before) and torch.equal(result, kept)
    assert result.data_ptr() != value.data_ptr()


def test_stateless_modifiers_compute_what_they_say():
    value = torch.tensor([[-2.0, 0.1, 2.0]])
    assert MODIFIERS["scale"].build((1, 3), "cpu")(value).tolist() == [[-4.0, pytest.approx(0.2), 4.0]]
    assert MODIFIERS["clip"].build((1, 3), "cpu")(value).tolist() == [[-0.5, pytest.approx(0.1), 0.5]]
    assert MODIFIERS["bias"].build((1, 3), "cpu")(value).tolist() == [[-1.0, pytest.approx(1.1), 3.0]]


class FilterReference:
    """The difference equation, for one number at a time."""

    def __init__(self, b: list[float], a: list[float]):
        self.b, self.a, self.inputs, self.outputs = b, a, [], []

    def __call__(self, value: float) -> float:
        self.inputs.insert(0, value)
        output = sum(weight * x for weight, x in zip(self.b, self.inputs, strict=False))
        output -= sum(weight * y for weight, y in zip(self.a, self.outputs, strict=False))
        self.outputs.insert(0, output)
        return output


weights = st.floats(-0.875, 0.875, width=32)


@settings(deadline=None)
@given(
    b=st.lists(weights, min_size=1, max_size=4),
    a=st.lists(weights, max_size=3),
    steps=st.lists(
        st.tuples(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=2), st.integers(0, 3)), max_size=8
    ),
)
def test_filter_equals_its_difference_equation_with_resets(b, a, steps):
    digital_filter = DigitalFilterCfg(b=tuple(b), a=tuple(a)).build((2, 1), "cpu")
    references = [FilterReference(b, a) for _ in range(2)]
    for values, reset_bits in steps:
        reset = torch.tensor([bool(reset_bits & 1), bool(reset_bits & 2)])
        digital_filter.reset(reset)
        references = [FilterReference(b, a) if r else ref for r, ref in zip(reset, references, strict=True)]
        result = digital_filter(torch.tensor(values)[:, None])[:, 0].tolist()
        expected = [reference(value) for reference, value in zip(references, values, strict=True)]
        assert result == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_low_pass_and_moving_average():
    low_pass = DigitalFilterCfg(b=(0.25,), a=(-0.75,)).build((1,), "cpu")
    average = DigitalFilterCfg(b=(0.5, 0.5)).build((1,), "cpu")
    ones = torch.ones(1)
    assert [low_pass(ones).item() for _ in range(3)] == pytest.approx([0.25, 0.4375, 0.578125])
    assert [average(ones).item() for _ in range(3)] == [0.5, 1.0, 1.0]


def test_integrator_follows_the_trapezoidal_rule():
    integrator = IntegratorCfg(dt=0.5).build((1,), "cpu")
    assert [integrator(torch.tensor([x])).item() for x in (1.0, 3.0, -1.0)] == pytest.approx([0.25, 1.25, 1.75])


@pytest.mark.parametrize("name", ["filter", "integrator"])
def test_a_reset_row_is_as_new(name):
    value = torch.randn(N, D, generator=make_generator(0))
    modifier, fresh = (MODIFIERS[name].build(value.shape, "cpu") for _ in range(2))
    modifier(2.0 * value), modifier(value)
    modifier.reset(ROW_1)
    for _ in range(3):
        used, new = modifier(value), fresh(value)
        assert torch.equal(used[1], new[1])
        assert not torch.equal(used[0], new[0])


@pytest.mark.parametrize("name", ["filter", "integrator"])
def test_memory_goes_on_in_the_rows_of_the_mask_only(name):
    value = torch.randn(N, D, generator=make_generator(0))
    modifier, twin = (MODIFIERS[name].build(value.shape, "cpu") for _ in range(2))
    modifier(value), twin(value)
    state = modifier.state_dict()
    looked = modifier(value, NONE)
    assert all(torch.equal(kept, state[path]) for path, kept in modifier.state_dict().items())
    assert torch.equal(looked, modifier(value, ROW_1))
    assert torch.equal(modifier(value)[~ROW_1], twin(value)[~ROW_1])
    assert not torch.equal(modifier(value)[1], twin(value)[1])


def test_filter_without_inputs_is_refused():
    with pytest.raises(ConfigError, match="b must hold"):
        DigitalFilterCfg(b=()).build((1,), "cpu")
