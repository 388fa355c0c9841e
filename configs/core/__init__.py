"""Shared basics: one-line input errors, files, locks, devices, status lines."""
