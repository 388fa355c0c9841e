"""The GRPO objective: advantages, loss, KL, importance weights."""
