"""pullback: composable function transformations over NumPy-like arrays, compiled by XLA."""
