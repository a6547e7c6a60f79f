from pullback.ops.stop_gradient import stop_gradient
