"""Sections of the configuration that one game owns."""
