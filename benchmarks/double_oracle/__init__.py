"""A double oracle over whole policies of the dogfight: mixtures of policies, and best responses that join the set."""
