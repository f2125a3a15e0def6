"""What the backend holds of each entity, and its exchange with Newton's arrays."""
