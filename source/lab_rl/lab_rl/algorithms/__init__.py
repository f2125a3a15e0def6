"""Learning algorithms, one folder each, and what they share."""
