"""What the page shows of many worlds."""

from __future__ import annotations

from dataclasses import dataclass

import viser

from lab_newton.viewer.events import PageEvents

_MAX_DRAWN_AT_FIRST = 16


@dataclass
class View:
    """Which worlds are drawn, and whose robot the camera follows."""

    num_worlds: int
    num_drawn: int
    robot: int = 0
    """World of the robot to follow."""
    follows: bool = False

    @property
    def worlds(self) -> tuple[int, ...]:
        """The worlds to draw: the first ones, and the one that is followed in place of the last of them."""
        first = tuple(range(self.num_drawn))
        return (*first[:-1], self.robot) if self.follows and self.robot not in first else first


class ViewFolder:
    """Its controls; :attr:`view` is what they say."""

    def __init__(self, gui: viser.GuiApi, events: PageEvents, num_worlds: int, follows: bool, order: float) -> None:
        self.view = view = View(num_worlds, min(num_worlds, _MAX_DRAWN_AT_FIRST), follows=follows)
        with gui.add_folder("View", order=order):
            self._follow = gui.add_checkbox("Follow robot", follows, hint="Keeps the robot where it is in the picture")
            several = num_worlds > 1
            self._robot = gui.add_number("Robot", view.robot, min=0, max=num_worlds - 1, step=1, visible=several)
            self._drawn = gui.add_number("Robots drawn", view.num_drawn, min=1, max=num_worlds, step=1, visible=several)
        events.on_input(self._follow, self._set_follows)
        events.on_input(self._robot, self.set_robot)
        events.on_input(self._drawn, self._set_num_drawn)

    def set_robot(self, robot: int) -> None:
        """Follows the robot of another world, if it follows one."""
        self.view.robot = self._robot.value = min(max(int(robot), 0), self.view.num_worlds - 1)

    def _set_follows(self, follows: bool) -> None:
        self.view.follows = follows

    def _set_num_drawn(self, count: int) -> None:
        self.view.num_drawn = self._drawn.value = min(max(int(count), 1), self.view.num_worlds)
