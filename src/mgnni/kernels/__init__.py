"""CUDA kernels, compiled when first needed; without them everything runs by plain torch."""
