"""Training: configurations, the loop, runs that survive, and what they leave behind."""
