"""Settings of motion tracking by a learned model of the robot's dynamics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from lab_core.agents.base import AgentCfg
from lab_core.config import Settings


@dataclass(kw_only=True)
class WorldModelCfg(Settings):
    """The learned dynamics, and how they are fitted to recorded steps."""

    hidden_dims: Sequence[int] = (1024, 1024, 1024, 1024)
    """Widths of the hidden layers."""
    context: Mapping[str, float] = field(default_factory=dict)
    """Properties of the robot that differ between environments and do not change -> the scale that their deviation
    from the configured value is divided by: ``{"body_mass": 0.1, "body_com_pos_b": 0.05}``."""
    horizon: int = 32
    """Steps that the model predicts on its own in an update."""
    first_horizon: int = 8
    """The same in the first updates."""
    first_updates: int = 500
    """Updates with the first horizon."""
    batch_size: int = 1024
    """Windows per update."""
    failure_share: float = 0.25
    """Share of the windows that end in a failure."""
    newest_share: float = 0.25
    """Share of the windows that end in the newest iteration."""
    holdout_share: float = 0.02
    """Share of the environments that the model is never fitted to, at least one."""
    state_noise: float = 0.01
    """Standard deviation of the noise on the first state, in standard deviations of each input."""
    pose_weight: float = 1.0
    """Weight of the errors of height, direction of gravity and joint positions beside those of velocities."""
    event_weight: float = 0.1
    """Weight of what the model says of events (see ``predicted_rewards``), as a cross entropy."""
    learning_rate: float = 1e-3
    """Of AdamW, at the beginning."""
    final_learning_rate: float = 3e-4
    """Where a half cosine takes it to by the end of the run."""
    weight_decay: float = 1e-4
    """Of AdamW."""
    max_grad_norm: float = 1.0
    """Longer gradients are scaled down to this norm."""


@dataclass(kw_only=True)
class SuperMimicCfg(AgentCfg):
    """Tracking of clips by back-propagation through a world model.

    One iteration collects :attr:`num_steps_per_env` steps in every environment, fits the world model
    :attr:`world_model_updates` times, and improves the policy :attr:`policy_updates` times on rollouts that the model
    imagines. After SuperMimic (Liao et al. 2026, https://arxiv.org/abs/2610.28480) and its forerunners SuperTrack
    (Fussell et al. 2021) and SHAC (Xu et al. 2022, https://arxiv.org/abs/2204.07137).
    """

    algorithm: ClassVar[str] = "supermimic"

    max_iterations: int = 4000
    num_steps_per_env: int = 8
    """Environment steps of every environment per iteration."""
    replay_steps: int = 512
    """Latest steps of every environment that are kept."""
    replay_memory_gib: float = 8.0
    """The run refuses to start when they would take more device memory."""
    save_replay: bool = False
    """Keep them in checkpoints too. Without, a resumed run first fills them anew and is not the uninterrupted one."""
    warmup_steps: int = 64
    """Steps of every environment before the first update, and in a resumed run without its steps."""
    warmup_noise: float = 0.3
    """Standard deviation of the noise on actions in them."""
    warmup_updates: int = 500
    """Updates of the world model before the first update of the policy."""

    obs_groups: Mapping[str, Sequence[str]] = field(
        default_factory=lambda: {"actor": ("policy",), "critic": ("policy",)}
    )
    """Observation groups that the ``actor`` and the ``critic`` read, concatenated in this order."""
    without_rewards: Sequence[str] = ()
    """Rewards, by name or regular expression, that imagination leaves out, such as those of contacts."""
    predicted_rewards: Sequence[str] = ()
    """Rewards, by name or regular expression, that say in which share of a step something happened that only the
    physics know, such as touches: the world model learns to say so, and imagination takes that."""
    without_terminations: Sequence[str] = ()
    """Terminations that imagination leaves out, besides those that cut off time."""
    reward_scale: float = 1.0
    """Factor of the imagined reward; best such that perfect tracking earns about 1 per step."""

    world_model: WorldModelCfg = field(default_factory=WorldModelCfg)
    world_model_updates: int = 4
    """Updates of the world model per iteration."""

    actor_hidden_dims: Sequence[int] = (1024, 512, 256)
    """Widths of the policy network's hidden layers."""
    critic_hidden_dims: Sequence[int] = (1024, 512, 256)
    """Widths of the value network's hidden layers."""
    action_limit: float = 5.0
    """Largest absolute action of the network, which a hyperbolic tangent holds."""
    exploration: Sequence[float] = (0.0, 0.05, 0.1, 0.2)
    """Standard deviations of the noise on actions; environments take turns with them."""
    exploration_correlation: float = 0.8
    """Of that noise between one step and the next."""

    policy_updates: int = 4
    """Updates of policy and critic per iteration."""
    horizon: int = 32
    """Steps of an imagined rollout."""
    batch_size: int = 2048
    """Imagined rollouts per update."""
    imagined_noise: float = 0.1
    """Standard deviation of the noise on actions in imagination."""
    observation_noise: float = 0.05
    """Noise of imagined observations, as a share of that of the simulation."""
    gamma: float = 0.99
    """Discount per environment step."""
    lam: float = 0.95
    """Weight of longer returns in the targets of the critic, TD(lambda)."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """Of the policy and the world model. ``muon`` orthogonalises the updates of hidden matrices."""
    learning_rate: float = 3e-4
    """Of the policy."""
    critic_learning_rate: float = 5e-4
    """Of the critic's AdamW."""
    muon_learning_rate: float = 0.01
    """Of hidden matrices under ``muon``."""
    max_grad_norm: float = 1.0
    """Longer gradients of policy and critic are scaled down to this norm."""
    max_state_gradient: float | None = 1.0
    """Largest norm of the gradient that a rollout hands from one of its states to the one before, measured for the sum
    of its rewards; None: any."""
    critic_epochs: int = 2
    """Times that an update learns from each imagined state."""
    critic_mini_batches: int = 4
    """Parts that they are split into."""
    target_decay: float = 0.995
    """Share that the target critic keeps of itself per update."""
    ema_decay: float = 0.998
    """Share that the averaged policy, which is evaluated and exported, keeps of itself per update."""
    max_skipped_updates: int = 20
    """The run stops after so many updates in a row with gradients that are not finite."""
    precision: Literal["fp32", "tf32", "bf16"] = "tf32"
    """Of matrix products in networks on a GPU; states and losses are in single precision."""
    captured: bool = True
    """Make updates CUDA graphs on a GPU."""
    fused: bool = True
    """Let ``torch.compile`` fuse the small operations of updates on a GPU where Triton is installed. That is
    compiled at the start, and kept for the next run."""
    holdout_interval: int = 50
    """Iterations between two measurements of the world model's error on environments that it was not fitted to."""
