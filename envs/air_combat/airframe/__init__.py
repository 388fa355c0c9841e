"""Airframes as data: tables and constants, each with its source."""
