"""Looking into programs that do something else than was meant: checks while they are traced and run."""
