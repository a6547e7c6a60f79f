"""`python -m pullback`: the tour, and looking into the user's own functions from the command line."""
