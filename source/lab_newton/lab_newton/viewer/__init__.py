"""Pictures of the scene, and a live view of it in the browser."""
