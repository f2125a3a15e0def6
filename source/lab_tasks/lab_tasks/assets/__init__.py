"""Models of other people that robots can wear: found where the user keeps them, never downloaded."""
