"""What a task consists of, what may go wrong with it, and a picture of it."""
