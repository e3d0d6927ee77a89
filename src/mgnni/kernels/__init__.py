"""CUDA kernels, compiled at first use. Everything also runs without them, in plain torch."""
