"""Configurations of earlier runs: read under their old names, compared with what a command line asks for."""
