"""A policy at work: in a video, or in front of somebody who watches."""
