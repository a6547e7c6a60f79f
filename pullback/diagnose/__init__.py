"""Looking into programs that do something else than was meant: equation by equation, for values and NaN; checks while they are
traced and run."""
