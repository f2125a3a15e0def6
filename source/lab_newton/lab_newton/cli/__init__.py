"""Commands about model files."""
