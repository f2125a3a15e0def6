"""From joint targets to joint efforts, inside the physics stage."""
