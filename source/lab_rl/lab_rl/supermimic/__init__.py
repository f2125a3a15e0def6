"""Motion tracking by back-propagation through a learned model of the robot's dynamics."""
