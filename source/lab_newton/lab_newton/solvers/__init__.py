"""What advances the physics: the interface of solvers, MuJoCo Warp, and others by name."""
