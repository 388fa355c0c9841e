"""Exact decoding under a grammar of legal answers, with shared prefixes."""
