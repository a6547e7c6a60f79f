"""What a function of the user's costs and what memory it takes, before it runs: tables of it."""
