"""The network that has the form of the manipulator equation."""

from __future__ import annotations

import pytest
import torch

from lab_core.errors import ConfigError
from lab_newton.nerd import NeRDModel, Representation
from lab_newton.nerd.networks import Manipulator


def of_kind(representation: Representation, *kinds: str) -> torch.Tensor:
    """Which channels (F,) of a frame are of these kinds."""
    return torch.tensor([kind in kinds for kind in representation.feature_kinds])


@pytest.fixture
def network(layout) -> Manipulator:
    torch.manual_seed(0)
    representation = Representation(layout)
    return Manipulator.for_robot(representation, {"hidden": [24, 24]}).double()


@pytest.fixture
def frames(layout) -> torch.Tensor:
    width = len(Representation(layout).feature_names)
    return torch.randn(5, 3, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_shapes(layout, frames):
    model = NeRDModel(layout, "Manipulator", {"hidden": [8]})
    outputs = model(frames.float())
    assert outputs.shape == (5, 3, layout.num_velocities) and outputs.dtype == torch.float32
    assert model.predict(frames.float()).shape == (5, layout.num_velocities)
    network = model.network
    velocities, efforts = layout.num_velocities, len(layout.actuated)
    factors = 1 + velocities + efforts + velocities * (velocities + 1) // 2
    assert network.coefficients[-1].out_features == velocities * factors
    assert network.context == 1 and network.token_size == network.num_inputs == frames.shape[-1]
    poses = int(of_kind(model.representation, "pose").sum())
    assert network.coefficients[0].in_features == poses


def test_kinds_of_features_are_those_of_their_names(layout):
    representation = Representation(layout)
    expected = {
        **dict.fromkeys(("sin", "cos", "position", "root gravity"), "pose"),
        **dict.fromkeys(("velocity", "root velocity", "root spin"), "velocity"),
        "effort": "effort",
    }
    assert len(representation.feature_kinds) == len(representation.feature_names)
    for name, kind in zip(representation.feature_names, representation.feature_kinds, strict=True):
        words = name.split()
        assert kind == expected[" ".join(words[:2]) if words[0] == "root" else words[0]], name


def test_is_affine_in_efforts(network, frames, layout):
    """At the middle of two efforts it says the mean of what it says at both, whatever pose and velocity."""
    effort = of_kind(Representation(layout), "effort")
    other = torch.where(effort, frames + 3.0 * torch.randn_like(frames), frames)
    middle = 0.5 * (network(frames) + network(other))
    torch.testing.assert_close(network(0.5 * (frames + other)), middle, rtol=1e-10, atol=1e-10)
    assert (network(other) - network(frames)).abs().min() > 1e-6


def test_is_quadratic_in_velocities(network, frames, layout):
    """Third differences vanish along every direction, second ones do not."""
    velocity = of_kind(Representation(layout), "velocity")
    direction = torch.where(velocity, torch.randn_like(frames), 0.0)
    at = [network(frames + step * direction) for step in range(4)]
    third = at[3] - 3.0 * at[2] + 3.0 * at[1] - at[0]
    torch.testing.assert_close(third, torch.zeros_like(third), rtol=0.0, atol=1e-10)
    assert (at[2] - 2.0 * at[1] + at[0]).abs().min() > 1e-6


def test_velocities_and_efforts_do_not_mix(network, frames, layout):
    """An effort accelerates as much at any velocity: M depends on the pose alone."""
    representation = Representation(layout)
    push = torch.where(of_kind(representation, "effort"), torch.randn_like(frames), 0.0)
    spin = torch.where(of_kind(representation, "velocity"), torch.randn_like(frames), 0.0)
    resting, moving = (network(base + push) - network(base) for base in (frames, frames + spin))
    torch.testing.assert_close(moving, resting, rtol=1e-10, atol=1e-10)


def test_is_exact_on_data_of_its_form(layout, make_state):
    """Without hidden layers its coefficients are affine in the pose; what is so too is met up to rounding, also where
    nobody looked: far faster and with stronger efforts."""
    representation = Representation(layout)
    network = Manipulator.for_robot(representation, {"hidden": []}).double()
    truth = Manipulator.for_robot(representation, {"hidden": []}).double()
    torch.manual_seed(3)
    torch.nn.init.normal_(truth.coefficients[0].weight)
    width = len(representation.feature_names)
    frames = torch.randn(1200, 1, width, dtype=torch.float64)
    # Its outputs are linear in its weights: the best ones follow in one step.
    pose = frames[:, 0, of_kind(representation, "pose")]
    layer = network.coefficients[0]
    with torch.no_grad():
        columns = []
        for factor in range(network._num_factors):
            layer.weight.zero_()
            layer.bias.copy_((torch.arange(layer.out_features) % network._num_factors == factor).double())
            columns.append(network(frames)[:, 0, :1])
        factors = torch.cat(columns, dim=1)
        regressors = torch.cat((pose, torch.ones_like(pose[:, :1])), dim=1)
        design = (factors[:, :, None] * regressors[:, None]).flatten(1)
        weights = torch.linalg.lstsq(design, truth(frames)[:, 0]).solution
        weights = weights.T.reshape(layer.out_features, -1)
        layer.weight.copy_(weights[:, :-1])
        layer.bias.copy_(weights[:, -1])
        beyond = 10.0 * torch.randn(50, 2, width, dtype=torch.float64)
        torch.testing.assert_close(network(beyond), truth(beyond), rtol=1e-8, atol=1e-8)


def test_learns_a_pendulum_from_few_steps(cart_pole_layout):
    """Least squares by a few steps of L-BFGS: a cart on a spring, with friction and quadratic drag."""
    torch.manual_seed(0)
    model = NeRDModel(cart_pole_layout, "Manipulator", {"hidden": []}).double()
    frames = torch.randn(400, 1, 6, dtype=torch.float64)
    sine, cosine, place, speed, spin, force = frames.unbind(-1)
    target = torch.stack((force * cosine - place - 0.3 * speed + sine * spin**2, sine + 0.1 * force - speed * spin), -1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=100, line_search_fn="strong_wolfe", tolerance_change=0.0)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        error = (model(frames) - target).square().mean()
        error.backward()
        return error

    for _ in range(3):
        optimizer.step(loss)
    assert loss() < 1e-12


@pytest.mark.parametrize(
    "options", [{"hiden": [8]}, {"hidden": 8}, {"hidden": ["wide"]}, {"context": 4}, {"input_kinds": ["pose"]}]
)
def test_options_that_it_does_not_take_are_refused(cart_pole_layout, options):
    with pytest.raises(ConfigError, match="Options of the network Manipulator: "):
        NeRDModel(cart_pole_layout, "Manipulator", options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 8}, r"hidden: got 8 \(int\), expected .*Sequence"),
        ({"hidden": ["wide"]}, r"hidden\[0\]: got 'wide' \(str\), expected int at least 1"),
        ({"hidden": [-8]}, r"hidden\[0\]: got -8, expected int at least 1"),
    ],
)
def test_options_of_the_wrong_kind_are_named(cart_pole_layout, options, message):
    with pytest.raises(ConfigError, match=f"Options of the network Manipulator: {message}"):
        NeRDModel(cart_pole_layout, "Manipulator", options)
