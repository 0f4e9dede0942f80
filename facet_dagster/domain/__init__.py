"""Frozen values of the funnel. Imports nothing of the project but ``errors``."""
