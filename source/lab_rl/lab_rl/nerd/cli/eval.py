"""``lab nerd eval``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab_core.cli import check_counts, parse, split_subject, with_dashes
from lab_core.errors import LabError

if TYPE_CHECKING:
    from lab_newton.nerd import ModelDescription, NeRDModel
    from lab_rl.nerd.physics_steps import PhysicsSteps
    from lab_rl.nerd.teacher import Teacher


@dataclass(kw_only=True)
class EvalOptions:
    """Options of ``lab nerd eval``."""

    data: tuple[Path, ...] = ()
    """Recordings to predict one step of: what was held out, if they are those of the fit, else all of them."""
    task: str | None = None
    """Task to roll out in, with its configuration for watching. Without it: the one that was recorded."""
    seconds: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)
    """Times at which errors of free rollouts are told [s]."""
    num_envs: int = 256
    """Environments of rollouts, and episodes of a policy."""
    wrench_steps: int = 256
    """Recorded steps of each regime of which wrenches in the joints are found."""
    policy: Path | None = None
    """Run, or checkpoint, whose policy is played in the model and in its teacher."""
    seed: int | None = None
    """Of the states that rollouts begin with. Without it: the task's."""
    device: str = "auto"
    """cpu, cuda or cuda:<number>; auto takes a GPU if there is one."""
    trust: bool = False
    """Let files name any code to import; else only code of packages that announce something to lab."""
    output: Path | None = None
    """Folder of report.md and its pictures. Without it: beside the model."""


def main(argv: Sequence[str]) -> int:
    """Measure a model: one step, free rollouts, a policy in it and in its teacher."""
    subject, arguments = split_subject(with_dashes(list(argv)), EvalOptions)
    example = "lab nerd eval logs/nerd/Lab-Cartpole-Explore/latest --data recordings/Lab-Cartpole-Explore"
    description = f"{main.__doc__}\n\nExample: {example}"
    args = parse(EvalOptions(), arguments, prog="lab nerd eval MODEL_OR_RUN", description=description)
    if subject is None:
        raise LabError(f"Which model? Give its file, or the run of its fit, as in `{example}`.")
    check_counts(args, "num_envs", "wrench_steps")
    if not args.seconds or min(args.seconds) <= 0.0:
        raise LabError(f"--seconds must be positive, got {list(args.seconds)}.")

    from rich.console import Console

    from lab_core.cli import resolve_device
    from lab_newton.nerd import load_model
    from lab_rl.nerd import report
    from lab_rl.nerd.fit import MODEL_FILE
    from lab_rl.runs.files import write_file

    path = Path(subject)
    path = path / MODEL_FILE if path.is_dir() else path
    device = resolve_device(args.device)
    model, known = load_model(path, device)
    if model.network.contact_channels and not args.data and args.policy is None:
        raise LabError(f"{path} sees contacts, and is measured beside recordings: give some with --data.")
    output = args.output or path.parent
    output.mkdir(parents=True, exist_ok=True)
    lines = report.describe_model(model, known)
    if args.data:
        lines += _on_recordings(model, known, path, args, output)
    if not model.network.contact_channels:
        lines += _rollouts(model, known, path, args, output)
    if args.policy is not None:
        lines += _returns(path, args)
    text = "\n".join(lines) + "\n"
    write_file(output / "report.md", text)
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
    print(f"Report: {output / 'report.md'}")
    return 0


def _on_recordings(model: NeRDModel, known: ModelDescription, path: Path, args: EvalOptions, output: Path) -> list[str]:
    """One step of everything recorded, wrenches that follow, and rollouts beside it."""
    import torch

    from lab_core.datasets import RecordedDataset
    from lab_newton.nerd import check_fingerprint
    from lab_rl.nerd import plots, report
    from lab_rl.nerd.fit import held_out_rows
    from lab_rl.nerd.metrics import OneStepEvaluator, ablations_of
    from lab_rl.nerd.physics_steps import describe_sources, read_physics_steps
    from lab_rl.nerd.replays import recorded_rollouts
    from lab_rl.nerd.teacher import find_teacher

    sources = [RecordedDataset(path) for path in args.data]
    teacher = find_teacher(sources)
    check_fingerprint("The model", known.fingerprint, teacher.fingerprint)
    layout, sees_contacts = teacher.layout, model.network.contact_channels > 0
    with_contacts = sees_contacts or (layout.floating and teacher.search is not None)
    steps = read_physics_steps(sources, teacher.entity, layout.joint_names, layout.floating, with_contacts)
    fitted = [source["sha256"] for source in known.extra["sources"]]
    given = [source["sha256"] for source in describe_sources(sources)]
    if fitted == given:
        fit = known.extra["fit"]
        steps = steps.select(held_out_rows(steps, fit["holdout"], fit["seed"]))
        note = "The episodes that its fit held out."
    elif set(fitted) & set(given):
        raise LabError("Some of these recordings were trained on; give all of them in the same order, or others.")
    else:
        note = "Recordings that its fit has never seen."
    device = model.inputs.mean.device
    evaluate = OneStepEvaluator(
        steps.to(device), model.network.context, torch.tensor(known.extra["pose_scale"], device=device)
    )
    if steps.incomplete:
        note += f" {steps.incomplete} recorded steps are left out: some of their contacts had found no place."
    regimes = {"all": None} | ({name: name for name in steps.regimes} if len(steps.regimes) > 1 else {})
    errors = {name: evaluate(model, regime) for name, regime in regimes.items()}
    plots.draw_one_step(errors, output / "one_step.png")
    lines = report.describe_one_step(errors, note, "one_step.png")
    parts = ablations_of(model)
    lines += report.describe_ablations(
        {name: {"all": errors[name], **{part: evaluate(model, regime, part) for part in parts}}
         for name, regime in regimes.items()}
    )  # fmt: skip
    lines += _wrenches(model, steps.to(device), teacher, args, output)
    if layout.floating:
        replays = recorded_rollouts(
            teacher.cfg,
            path,
            steps,
            layout,
            teacher.entity,
            sorted(args.seconds),
            args.num_envs,
            str(device),
            args.seed,
        )
        plots.draw_replays(replays, output / "replays.png")
        lines += report.describe_replays(replays, "replays.png")
    return lines


def _wrenches(model: NeRDModel, steps: PhysicsSteps, teacher: Teacher, args: EvalOptions, output: Path) -> list[str]:
    """Wrenches that follow from predictions, or why none do."""
    import torch

    from lab_newton import MuJoCoSolverCfg
    from lab_newton.nerd import WrenchReconstruction
    from lab_rl.nerd import plots, report
    from lab_rl.nerd.solver_wrenches import solver_wrenches
    from lab_rl.nerd.wrenches import choose_steps, friction_of, measure_wrenches

    why = teacher.no_masses
    if not teacher.layout.floating:
        why = "A fixed robot that touches nothing has those of its states and efforts, whatever is predicted."
    elif teacher.search is None:
        why = "The recordings hold no contacts, and a robot with a free root is held by them."
    elif not isinstance(teacher.cfg.physics.solver, MuJoCoSolverCfg):
        why = "The solver of the recordings does not tell wrenches in joints; MuJoCo Warp does."
    if why or teacher.robot is None:
        return ["", "## Wrenches in the joints that the motion implies", "", f"None: {why}"]
    friction, device = friction_of(teacher.fingerprint), steps.q.device
    reconstruction = WrenchReconstruction(teacher.layout, teacher.robot, friction, device=device)
    chosen = choose_steps(steps, model.network.context, args.wrench_steps, args.seed or 0)
    last = torch.cat([rows[:, -1] for rows in chosen.values()])
    parts = reconstruction.part_names
    solver = solver_wrenches(teacher.cfg, steps, last, teacher.layout, teacher.entity, parts, str(device))
    figures = measure_wrenches(model, steps, chosen, reconstruction, solver)
    plots.draw_wrenches(figures, output / "wrenches.png")
    return report.describe_wrenches(figures, friction, "wrenches.png")


def _rollouts(model: NeRDModel, known: ModelDescription, path: Path, args: EvalOptions, output: Path) -> list[str]:
    from lab_core.registry import get_task
    from lab_newton import NeRDSolverCfg
    from lab_rl.nerd import plots, report
    from lab_rl.nerd.rollouts import passive_rollouts

    cfg = get_task(args.task or known.extra["task"]).make_env_cfg(play=True)
    if args.seed is not None:
        cfg.seed = args.seed
    learned = NeRDSolverCfg(model=str(path.resolve()), teacher=cfg.physics.solver)
    entities = list(cfg.scene.entities)
    errors = passive_rollouts(
        cfg, learned, model.layout, entities[0], args.num_envs, max(args.seconds), str(model.inputs.mean.device)
    )
    plots.draw_rollouts(errors, output / "rollouts.png")
    return report.describe_rollouts(errors, sorted(args.seconds), args.num_envs, "rollouts.png")


def _returns(path: Path, args: EvalOptions) -> list[str]:
    from lab_core.cli import resolve_device
    from lab_newton import NeRDSolverCfg
    from lab_rl.nerd import report
    from lab_rl.nerd.returns import compare_returns
    from lab_rl.runs.trained_policy import load_trained

    assert args.policy is not None
    policy = load_trained(args.policy)
    solver = policy.cfg.env.physics.solver  # pyright: ignore[reportAttributeAccessIssue]
    teacher = solver.teacher if isinstance(solver, NeRDSolverCfg) else solver
    learned = NeRDSolverCfg(model=str(path.resolve()), teacher=teacher)
    returns = compare_returns(policy, learned, teacher, args.num_envs, str(resolve_device(args.device)))
    return report.describe_returns(returns, args.policy)
