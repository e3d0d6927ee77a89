"""Models: the layers put together; they hold no mathematics of their own."""
