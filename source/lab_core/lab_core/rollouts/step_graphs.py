"""What of a step is recorded as graphs, as a front end that captures reports it."""

from __future__ import annotations

from lab_core.envs import RLEnv


def step_graphs(env: RLEnv) -> tuple[int | None, tuple[str, ...]]:
    """Returns the graph launches of a step that has been made, and what runs between the graphs, each with its reason;
    None and nothing for a front end that captures nothing."""
    capture_report = getattr(env, "capture_report", None)
    if capture_report is None:
        return None, ()
    (report,) = (report for report in capture_report() if report.stage.endswith("._step"))
    return (report.num_graphs, report.islands) if report.captured else (0, (report.reason,))


def describe_step(env: RLEnv) -> str:
    """Returns in words what of a step that has been made is recorded, and what is not."""
    launches, islands = step_graphs(env)
    if launches is None:
        return "Nothing of a step is recorded."
    if not launches:
        return f"Nothing of a step is recorded: {'; '.join(islands)}."
    graphs = "one graph" if launches == 1 else f"{launches} graphs"
    if not islands:
        return f"A step is {graphs}."
    return f"A step is {graphs}. Not recorded: {'; '.join(dict.fromkeys(islands))}."
