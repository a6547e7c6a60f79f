"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.scipy.stats.continuous import beta as beta
from pullback.scipy.stats.continuous import cauchy as cauchy
from pullback.scipy.stats.continuous import chi2 as chi2
from pullback.scipy.stats.continuous import expon as expon
from pullback.scipy.stats.continuous import gamma as gamma
from pullback.scipy.stats.continuous import gennorm as gennorm
from pullback.scipy.stats.continuous import gumbel_l as gumbel_l
from pullback.scipy.stats.continuous import gumbel_r as gumbel_r
from pullback.scipy.stats.continuous import laplace as laplace
from pullback.scipy.stats.continuous import logistic as logistic
from pullback.scipy.stats.continuous import norm as norm
from pullback.scipy.stats.continuous import pareto as pareto
from pullback.scipy.stats.continuous import t as t
from pullback.scipy.stats.continuous import truncnorm as truncnorm
from pullback.scipy.stats.continuous import uniform as uniform
from pullback.scipy.stats.continuous import vonmises as vonmises
from pullback.scipy.stats.continuous import wrapcauchy as wrapcauchy
from pullback.scipy.stats.discrete import bernoulli as bernoulli
from pullback.scipy.stats.discrete import betabinom as betabinom
from pullback.scipy.stats.discrete import binom as binom
from pullback.scipy.stats.discrete import dirichlet as dirichlet
from pullback.scipy.stats.discrete import geom as geom
from pullback.scipy.stats.discrete import multinomial as multinomial
from pullback.scipy.stats.discrete import multivariate_normal as multivariate_normal
from pullback.scipy.stats.discrete import nbinom as nbinom
from pullback.scipy.stats.discrete import poisson as poisson
