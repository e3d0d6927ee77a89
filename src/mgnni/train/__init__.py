"""Training: configurations, presets, the training loop, checkpoints and reports."""
