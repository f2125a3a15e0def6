"""Packages for robots of others: a task that trains, written from templates."""
