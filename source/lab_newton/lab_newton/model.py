"""From the entities of a scene to a Newton model of all worlds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping

import newton
import numpy as np
import warp as wp

from lab_core.errors import ConfigError
from lab_core.scene import SceneCfg
from lab_newton.arrays import present
from lab_newton.engine_words import told_of
from lab_newton.robot_files import ImportedFile
from lab_newton.robot_files.collisions import keep_pairs_of_files
from lab_newton.state import NewtonEntity
from lab_newton.terrain import Ground


def build_model(
    scene: SceneCfg,
    entities: Mapping[str, NewtonEntity],
    gravity: tuple[float, float, float],
    num_envs: int,
    device: wp.Device,
    ground: Ground,
    prepare: Callable[[newton.ModelBuilder], None],
) -> newton.Model:
    """Returns the model of ``num_envs`` equal worlds, all at the origin, each with all ``entities``.

    Args:
        scene: Where they stand: on its ground.
        entities: The entities by name, in the order of the scene; they get their layouts.
        gravity: In the world frame [m/s^2].
        num_envs: Number of worlds.
        device: Where the model lies.
        ground: The ground of all worlds.
        prepare: Sets up an empty builder for the solver.

    Raises:
        ConfigError: an entity cannot be built, or there is none, or one with a fixed base, or with shapes that
            stand still, is to be put on generated terrain.
    """
    world = new_builder(gravity, prepare)
    for entity in entities.values():
        entity.add_to(world)
    keep_pairs_of_files(world, [one for entity in entities.values() if (one := _file_that_touches_itself(entity))])
    if not entities:
        raise ConfigError("scene.entities is empty: the Newton backend needs at least one entity.")
    fixed = [name for name, entity in entities.items() if not entity.layout.floating]
    if fixed and scene.terrain is not None:
        raise ConfigError(
            f"Entity {fixed[0]!r} is fixed to the world, and on generated terrain every environment has a place of its "
            "own, where only floating roots can be put. Use a plane: scene.ground in place of scene.terrain."
        )
    still = [name for name, entity in entities.items() if _brings_still_shapes(entity, world)]
    if still and scene.terrain is not None:
        raise ConfigError(
            f"Entity {still[0]!r} brings shapes that stand still in the world, such as a floor, and on a terrain "
            "every environment has a place of its own. Take them out of its file, or use scene.ground."
        )
    builder = new_builder(gravity, prepare)
    builder.replicate(world, num_envs)
    ground.add_to(builder)
    # What MuJoCo compiled is physical; Newton would make inertias below 1e-6 kg m^2 larger.
    is_compiled = all(entity.imported is not None and entity.imported.file is not None for entity in entities.values())
    with told_of(files_of(entities.values())), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Inertia validation corrected")  # told below, by name
        model = builder.finalize(device=device, skip_validation_inertia=is_compiled)
    _tell_of_corrected_bodies(model, world, entities.values())
    return model


def files_of(entities: Iterable[NewtonEntity]) -> str:
    """Returns the names of entities with those of their files, for messages: ``Entity 'robot': 'arm.xml'``."""
    named = [f"{one.name!r}: {asset!r}" if (asset := _asset(one)) else repr(one.name) for one in entities]
    return f"Entity {named[0]}" if len(named) == 1 else f"Entities {', '.join(named)}"


def _file_that_touches_itself(entity: NewtonEntity) -> ImportedFile | None:
    return entity.imported if getattr(entity.cfg, "self_collision", True) else None


def _asset(entity: NewtonEntity) -> str:
    return str(getattr(entity.cfg, "asset", ""))


def _tell_of_corrected_bodies(
    model: newton.Model, world: newton.ModelBuilder, entities: Iterable[NewtonEntity]
) -> None:
    """Warns of bodies whose masses no body can have, which Newton makes possible and then only counts."""
    count = world.body_count
    built = np.hstack([present(model.body_mass).numpy()[:count, None], _rows(present(model.body_inertia), count)])
    asked = np.hstack([np.array(world.body_mass).reshape(count, 1), np.array(world.body_inertia).reshape(count, 9)])
    asked[:, 1:] = 0.5 * (asked[:, 1:] + asked[:, [1, 4, 7, 2, 5, 8, 3, 6, 9]])
    is_corrected = np.any(~np.isclose(built, asked, rtol=1e-4, atol=1e-12), axis=1)
    for entity in entities:
        names = zip(entity.layout.body_names, entity.layout.body, strict=True)
        corrected = [repr(name) for name, body in names if is_corrected[body]]
        if corrected:
            warnings.warn(
                f"{files_of([entity])}: Newton corrected mass or inertia of {', '.join(corrected)}, which no body can "
                "have. Correct them in the file.",
                stacklevel=3,
            )


def _rows(inertia: wp.array, count: int) -> np.ndarray:
    return inertia.numpy()[:count].reshape(count, 9)


def _brings_still_shapes(entity: NewtonEntity, world: newton.ModelBuilder) -> bool:
    shapes = range(0) if entity.imported is None else entity.imported.shapes
    return any(world.shape_body[shape] < 0 for shape in shapes)


def new_builder(
    gravity: tuple[float, float, float] = (0.0, 0.0, 0.0),
    prepare: Callable[[newton.ModelBuilder], object] = lambda builder: None,
) -> newton.ModelBuilder:
    """Returns a builder that reads model files as all of them are read; ``prepare`` sets it up for a solver."""
    builder = newton.ModelBuilder(gravity=gravity)
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    builder.default_shape_cfg.mu = 1.0
    prepare(builder)
    return builder
