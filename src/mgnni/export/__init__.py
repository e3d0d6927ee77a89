"""Trained models as files that run without the training code."""
