"""Fitting models of a robot's dynamics (:mod:`lab_newton.nerd`) to recorded physics steps, and measuring them."""
