"""Special functions, against SciPy's; against mpmath they are held in tests/ops/numerical_truth.py."""

import numpy as np
import scipy.special as sc
from cases import case, entry

R = np.random.default_rng(3)
ANY, POSITIVE, FRACTION = R.normal(size=(2, 3)), 0.5 + 2 * R.random((2, 3)), 0.1 + 0.8 * R.random((2, 3))
SHAPE = 0.5 + 3 * R.random((2, 3))
DTYPES = ("float32", "float64", "float16", "bfloat16")
LOOSE = {"float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-12}


def of(reference, *cases, **options):
    return entry(reference, *cases, **{"dtypes": DTYPES, "rtol": LOOSE, "weak": True, "wrt": (0,), **options})


def unary(reference, at, **options):
    return of(reference, case(at), case(at[:0]), case(np.array(at[0, 0])), **options)


def binary(reference, x, y, **options):
    return of(reference, case(x, y), case(x[0], y[:, :1]), case(1.5, y), **{"wrt": (0, 1), **options})


def fraction(reference, **options):
    return of(reference, case(FRACTION), case(FRACTION[:0]), case(np.array(FRACTION[0, 0])), **options)


TABLE = {
    **{f"scipy.special.{name}": unary(getattr(sc, name), ANY) for name in (
        "erf", "erfc", "erfcx", "ndtr", "log_ndtr", "dawsn", "expit", "log_expit", "exprel", "i0", "i0e", "i1", "i1e", "expi",
    )},
    **{f"scipy.special.{name}": unary(getattr(sc, name), POSITIVE) for name in (
        "gamma", "gammaln", "loggamma", "digamma", "entr", "exp1", "spence",
    )},
    **{f"scipy.special.{name}": fraction(getattr(sc, name)) for name in ("erfinv", "erfcinv", "ndtri", "logit")},
    **{f"scipy.special.{name}": binary(getattr(sc, name), POSITIVE, SHAPE) for name in (
        "beta", "betaln", "gammainc", "gammaincc", "poch", "xlogy", "xlog1py", "rel_entr", "kl_div", "boxcox", "boxcox1p",
    )},
    "scipy.special.gammaincinv": binary(sc.gammaincinv, SHAPE, FRACTION),
    "scipy.special.gammainccinv": binary(sc.gammainccinv, SHAPE, FRACTION),
    "scipy.special.owens_t": binary(sc.owens_t, ANY, POSITIVE),
    **{f"scipy.special.{name}": of(
        getattr(sc, name), case(SHAPE, POSITIVE, FRACTION), case(2.0, 3.0, FRACTION), wrt=(0, 1, 2)
    ) for name in ("betainc", "betaincc", "betaincinv", "betainccinv")},
    "scipy.special.gammasgn": unary(sc.gammasgn, ANY),
    "scipy.special.polygamma": of(
        sc.polygamma, case(1, POSITIVE), case(0, POSITIVE), case(np.array([0.0, 1, 2]), POSITIVE), case(2, ANY), wrt=(1,),
        rtol={**LOOSE, "float32": 1e-4, "float16": 0.03, "bfloat16": 0.2},
    ),
    "scipy.special.zeta": of(sc.zeta, case(1 + POSITIVE, SHAPE), case(1 + POSITIVE), wrt=(0, 1)),
    "scipy.special.factorial": unary(lambda n, exact=False: sc.gamma(n + 1.0), POSITIVE, anything=("exact",)),
    "scipy.special.comb": of(
        sc.comb, case(3 + POSITIVE, POSITIVE), wrt=(0, 1), anything=("repetition",),
    ),
    "scipy.special.multigammaln": of(sc.multigammaln, case(3 + POSITIVE, 2), case(3 + POSITIVE, 1)),
    "scipy.special.bernoulli": entry(sc.bernoulli, case(2), case(30), rtol={"float32": 1e-6}, jit=False, vmap=False),
    "scipy.special.wofz": entry(sc.wofz, case(ANY + 1j), case(ANY), dtypes=("complex64", "complex128"), wrt=(0,), weak=True),
    "scipy.special.bessel_jn": of(lambda z, v: np.stack([sc.jv(n, z) for n in range(v + 1)]), case(ANY, v=3), case(ANY, v=0)),
    "scipy.special.expn": of(sc.expn, case(2, POSITIVE), case(np.array([0.0, 1, 3]), POSITIVE), wrt=(1,)),
    "scipy.special.sici": unary(sc.sici, POSITIVE),
    "scipy.special.fresnel": unary(sc.fresnel, ANY),
    "scipy.special.hyp1f1": of(sc.hyp1f1, case(SHAPE, POSITIVE, ANY), wrt=(2,)),
    "scipy.special.hyp2f1": of(sc.hyp2f1, case(SHAPE, POSITIVE, 2.5, FRACTION), wrt=(3,)),
    "scipy.special.sph_harm_y": entry(
        lambda n, m, theta, phi: sc.sph_harm_y(np.asarray(n, int), np.asarray(m, int), theta, phi),
        case(2, np.array([0.0, -1, 2]), POSITIVE, ANY), case(3, 1, np.full(2, 0.01), ANY[0, :2]), wrt=(2, 3), weak=True,
    ),
    "scipy.special.softmax": of(sc.softmax, case(ANY), case(ANY, axis=0), weak=False),
    "scipy.special.log_softmax": of(sc.log_softmax, case(ANY), case(ANY, axis=0), weak=False),
    "lax.igamma": of(sc.gammainc, case(SHAPE, POSITIVE), wrt=(0, 1)),
    "lax.igammac": of(sc.gammaincc, case(SHAPE, POSITIVE), wrt=(0, 1)),
    "lax.igamma_grad_a": of(
        lambda a, x: (sc.gammainc(a + 1e-5, x) - sc.gammainc(a - 1e-5, x)) / 2e-5, case(SHAPE, POSITIVE), wrt=(0, 1),
        rtol={**LOOSE, "float64": 1e-9},
    ),
    "lax.random_gamma_grad": of(
        lambda a, x: (
            (sc.gammaincinv(a + 1e-5, sc.gammainc(a, x)) - sc.gammaincinv(a - 1e-5, sc.gammainc(a, x))) / 2e-5
        ), case(SHAPE, POSITIVE), wrt=(0, 1), rtol={**LOOSE, "float64": 1e-8},
    ),
    "lax.betainc": of(sc.betainc, case(SHAPE, POSITIVE, FRACTION), wrt=(0, 1, 2)),
    "lax.bessel_i0e": of(sc.i0e, case(ANY)),
    "lax.bessel_i1e": of(sc.i1e, case(ANY)),
    "lax.zeta": of(sc.zeta, case(1 + POSITIVE, SHAPE), wrt=(0, 1)),
    "lax.polygamma": of(sc.polygamma, case(np.array([[0.0, 1, 2]] * 2), POSITIVE), wrt=(1,), rtol={**LOOSE, "float32": 1e-4}),
}  # fmt: skip
ELSEWHERE = {f"scipy.special.{name}": "tests/scipy/test_special.py" for name in ("logsumexp", "sinc")}
ELSEWHERE |= {f"scipy.stats.{name}": "tests/scipy/test_stats.py" for name in ("rankdata", "mode", "sem")}
