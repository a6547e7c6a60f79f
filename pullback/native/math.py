"""Stand-in."""

_F = {
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log": "log",
    "log_plus_one": "log1p",
    "tanh": "tanh",
    "sine": "sin",
    "cosine": "cos",
    "tan": "tan",
    "cbrt": "cbrt",
    "power": "pow",
    "atan2": "atan2",
    "chlo.erf": "erf",
    "remainder": "fmod",
}


def is_known(name):
    return name in _F or name in ("logistic", "rsqrt")


def weight(name):
    return 20.0 if is_known(name) else 1.0


def apply(code, name, ops):
    x = ops[0]
    if x.kind != "f64":
        from pullback.native import elementwise

        return elementwise.convert(code, apply(code, name, [elementwise.convert(code, o, "f64") for o in ops]), x.kind)
    one = code.constant(1, x.kind, x.lanes)
    if name == "logistic":
        e = apply(code, "exponential", [code.pure(f"fneg {x}", x.kind, x.lanes)])
        return code.binary("fdiv", one, code.binary("fadd", one, e))
    if name == "rsqrt":
        return code.binary("fdiv", one, code.intrinsic("sqrt", x))
    return code.call_outside(_F[name], x.kind, ops)
