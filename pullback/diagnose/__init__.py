"""Looking into programs while they run: equation by equation, for values, NaN, and what compiled code makes different."""
