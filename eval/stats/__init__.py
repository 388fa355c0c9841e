"""Tables, intervals, ratings and tests."""
