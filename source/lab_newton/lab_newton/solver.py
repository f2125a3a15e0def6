"""What a solver is to the backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import ClassVar

import newton
import torch
import warp as wp
from newton.solvers import SolverBase

from lab_core.errors import ConfigError
from lab_core.physics import Fingerprint
from lab_newton.contact_set import ContactSet
from lab_newton.robot_files import ImportedFile


@dataclass(frozen=True)
class ContactForces:
    """Contacts of the latest solver step, those of all worlds in one pool."""

    capacity: int
    count: wp.array
    """(1,) number of contacts; the rest of the pool is left from earlier steps."""
    world: wp.array
    """(capacity,) world of each contact."""
    geom: wp.array
    """(capacity,) the two geoms of each contact, in the solver's own numbers."""
    shape_of_geom: wp.array
    """(N, geoms) Newton's shape of each geom; -1 for none."""
    force: wp.array
    """(capacity,) force [N] and torque on the second geom, world frame; 0 where geoms are close but do not touch."""


class Solver(ABC):
    """Advances the state of all worlds, in place; built by its :class:`~lab_newton.SolverCfg`.

    The backend knows of a solver what stands here and nothing else, so that one of another package needs no edit of
    this one: it derives from this class, or hands a class with Newton's own interface to
    :class:`~lab_newton.NewtonSolverCfg`.

    :meth:`collide`, :meth:`step`, :meth:`take_over`, :meth:`reset` and :meth:`notify` become part of graphs: they
    launch kernels on arrays that stay where they are, and do nothing else. A step launches the same whatever happens in
    it; what is wrong it counts on the device, for :meth:`overflows`. Torch code, such as a network, goes through
    ``lab_warp.capture_torch``, in :meth:`collide` and :meth:`step` only: resets run in conditional nodes, where a graph
    cannot be interrupted.
    """

    name: str
    """What messages call it, and the line that a training begins with."""
    feels_wrenches: bool = False
    """Whether ``state.body_f`` pushes bodies. Where it does not, events that push with forces are refused, and so is a
    force that somebody else wrote, in ``health()``."""
    reads_bodies: bool = False
    """Whether ``state.body_q`` and ``state.body_qd`` must be where the joints put them before a step."""
    changeable: ClassVar[int] = 0
    """Union of the ``newton.ModelFlags`` of what may change in the model; the backend refuses everything else."""
    strict_capacity: bool = False
    """Whether an overflow is an error instead of a report."""
    contact_set: ContactSet | None = None
    """Contacts from geometry, refreshed before every physics step, for whoever looks at them: a solver that does makes
    it when it is built, else the backend does for sensors. None: nobody looks."""
    observables: SolverBase.Observables | None = None
    """What :meth:`observe` asked for, as the last observed step left it; None if nothing."""

    def collide(self, state: newton.State) -> None:
        """Finds contacts at the start of a physics step, where :meth:`step` does not do so itself."""

    @abstractmethod
    def step(self, state: newton.State, control: newton.Control, dt: float, observed: bool = False) -> None:
        """Advances ``state`` by ``dt`` [s].

        Joints are driven by ``control.joint_f`` [N or N m], bodies pushed by ``state.body_f`` (world frame, about the
        centre of mass). ``joint_q``, ``joint_qd``, ``body_q`` and ``body_qd`` are filled in. ``observed``: fill
        :attr:`observables` as well.
        """

    def take_over(self, state: newton.State, mask: wp.array) -> None:
        """Learns that somebody else wrote the joint state of the worlds of ``mask`` (N,) bool: a reset, a push, a
        given state. For a solver that remembers more than ``state``, such as a history. Called before the next step,
        once for each time that something was written, and with an empty mask where nothing was."""

    @abstractmethod
    def reset(self, state: newton.State, mask: wp.array) -> None:
        """Forgets what it remembers of the worlds of ``mask``, not their state: a NaN in a memory would outlive the
        state that caused it. ``mask`` is (N + 1,) bool, Newton's form, whose last entry no world has."""

    def check_physics(self, fingerprint: Fingerprint) -> None:
        """Refuses physics that it cannot follow, right after it was built; for a solver that knows one robot alone.

        Args:
            fingerprint: Of the model it was built for, see :meth:`lab_core.physics.PhysicsBackend.fingerprint`.

        Raises:
            ConfigError: the physics are others; the message names what differs.
        """

    def check_files(self, files: Mapping[str, ImportedFile], self_collision: Mapping[str, bool]) -> None:
        """Compares what it steps with what the authors of the model files meant, right after it was built.

        Args:
            files: Entity -> the file it was made from.
            self_collision: Entity -> whether its bodies may touch each other.

        Raises:
            ConfigError: something differs; names entity, element, field and both values.
        """

    def notify(self, flags: int) -> None:
        """Takes over properties of the model that changed, ``newton.ModelFlags`` of :attr:`changeable`."""

    def memory(self) -> dict[str, wp.array | torch.Tensor]:
        """Returns what it carries from step to step, by name, in rows of worlds; checkpoints hold it."""
        return {}

    def overflows(self) -> dict[str, str]:
        """Reads and forgets what found no room since the last call: buffer -> worlds, setting to raise, value needed.

        One host synchronisation; a solver counts on the device, in :meth:`step`.
        """
        return {}

    def observe(self, kinds: Set[str]) -> None:
        """Prepares :attr:`observables` for ``kinds``, of ``SolverBase.ObservableKind``.

        Raises:
            ConfigError: the solver does not offer one of them.
        """
        if kinds:
            raise ConfigError(f"{self.name} does not offer {', '.join(sorted(kinds))}.")

    def measure_contacts(self) -> ContactForces:
        """Returns contacts that every following :meth:`step` fills.

        Raises:
            ConfigError: the solver does not measure them.
        """
        raise ConfigError(f"Contact forces come from MuJoCo Warp, the solver is a {self.name}.")
