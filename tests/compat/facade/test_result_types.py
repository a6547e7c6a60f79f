"""What comes of operands of 64 bits, of numbers and of arrays of each kind: the types that JAX 0.10.2 gives, in both widths."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import pullback.compat.jax as jax
import pullback.compat.jax.numpy as jnp
from pullback.compat.jax import lax
from pullback.core.types import array_type

# An expression, and the types of its value (of the first one of a tuple) without and with jax_enable_x64, `~` for a weak one.
GIVEN = """
x+f64 -> f32[2] f64[2] ; f64+x -> f32[2] f64[2] ; x*np.float64(2) -> f32[2] f64[2] ; np.float64(2)*x -> f32[2] f64[2]
np.int64(2)*x -> f32[2] f32[2] ; i+i64 -> i32[2] i64[2] ; i64+i -> i32[2] i64[2] ; i+f64 -> f32[2] f64[2]
x+c128 -> c64[2] c128[2] ; i+u64 -> i32[2] ~f64[2] ; b+i64 -> i32[2] i64[2] ; bf+f64 -> f32[2] f64[2]
bf*np.float64(1) -> f32[2] f64[2] ; bf*2.0 -> bf16[2] bf16[2] ; u8+i64 -> i32[2] i64[2] ; u8+1 -> u8[2] u8[2]
i*1.5 -> ~f32[2] ~f64[2] ; i/i -> f32[2] f32[2] ; i//2 -> i32[2] i32[2] ; i**2 -> i32[2] i32[2] ; i**2.0 -> ~f32[2] ~f64[2]
i**-1.0 -> ~f32[2] ~f64[2] ; 2**i -> i32[2] i32[2] ; np.sin(f64)+x -> f32[2] f64[2] ; x@f64 -> f32[] f64[]
f64@x -> f32[] f64[] ; x.astype(np.float64) -> f32[2] f64[2] ; x.astype('int64') -> i32[2] i64[2]
x.astype(float) -> f32[2] f64[2] ; x.astype(int) -> i32[2] i64[2] ; x.astype(complex) -> c64[2] c128[2]
jnp.asarray(f64) -> f32[2] f64[2] ; jnp.array(f64) -> f32[2] f64[2] ; jnp.asarray(i64) -> i32[2] i64[2]
jnp.asarray(u64) -> u32[2] u64[2] ; jnp.asarray(c128) -> c64[2] c128[2] ; jnp.array(1.0) -> ~f32[] ~f64[]
jnp.array(1) -> ~i32[] ~i64[] ; jnp.asarray(1.0) -> ~f32[] ~f64[] ; jnp.asarray(1) -> ~i32[] ~i64[]
jnp.array([1,2.]) -> f32[2] f64[2] ; jnp.array(True) -> bool[] bool[] ; jnp.asarray(np.float64(1)) -> f32[] f64[]
jnp.asarray(np.int64(1)) -> i32[] i64[] ; jnp.array(1j) -> ~c64[] ~c128[] ; jnp.full(2,1) -> ~i32[2] ~i64[2]
jnp.full(2,1.) -> ~f32[2] ~f64[2] ; jnp.full(2,f64[0]) -> f32[2] f64[2] ; jnp.zeros_like(1) -> ~i32[] ~i64[]
jnp.ones_like(1.0) -> ~f32[] ~f64[] ; jnp.zeros_like(f64) -> f32[2] f64[2] ; jnp.full_like(x,1) -> f32[2] f32[2]
jnp.arange(3) -> i32[3] i64[3] ; jnp.arange(3.) -> f32[3] f64[3] ; jnp.arange(0,1,.5) -> f32[2] f64[2]
jnp.arange(np.int64(3)) -> i32[3] i64[3] ; jnp.linspace(0,1,3) -> f32[3] f64[3] ; jnp.eye(2) -> f32[2,2] f64[2,2]
jnp.sum(b) -> i32[] i64[] ; jnp.sum(i) -> i32[] i64[] ; jnp.sum(i64) -> i32[] i64[] ; jnp.sum(f64) -> f32[] f64[]
jnp.mean(i64) -> f32[] f64[] ; jnp.argmax(x) -> i32[] i64[] ; jnp.cumsum(i64) -> i32[2] i64[2] ; jnp.prod(u64) -> u32[] u64[]
jnp.where(b,f64,x) -> f32[2] f64[2] ; jnp.where(b,1,2) -> ~i32[2] ~i64[2] ; jnp.where(b,1.,x) -> f32[2] f32[2]
jnp.where(b,1,x) -> f32[2] f32[2] ; jnp.maximum(f64,0) -> f32[2] f64[2] ; jnp.maximum(i64,0.5) -> ~f32[2] ~f64[2]
jnp.concatenate([f64,x]) -> f32[4] f64[4] ; jnp.stack([f64,f64]) -> f32[2,2] f64[2,2] ; jnp.sin(1) -> ~f32[] ~f64[]
jnp.sin(i64) -> f32[2] f64[2] ; jnp.exp(f64) -> f32[2] f64[2] ; jnp.power(i64,i64) -> i32[2] i64[2]
jnp.float32(1) -> f32[] f32[] ; jnp.float64(1) -> f32[] f64[] ; jnp.int64(3) -> i32[] i64[]
jnp.take(f64,i64) -> f32[2] f64[2] ; jnp.dot(f64,f64) -> f32[] f64[] ; jnp.result_type(f64,x) -> f32 f64
jnp.result_type(1,2.) -> f32 f64 ; jnp.result_type(float) -> f32 f64 ; jnp.result_type(int,jnp.uint8) -> u8 u8
jnp.promote_types('int32','uint32') -> i32 i64 ; jnp.dtype('float64') -> f64 f64 ; jnp.finfo(float).dtype -> f64 f64
jnp.iinfo(int).dtype -> i64 i64 ; lax.add(1.,2.) -> ~f32[] ~f64[] ; lax.iota('int64',3) -> i32[3] i64[3]
lax.full((2,),1.) -> ~f32[2] ~f64[2] ; lax.full((2,),f64[0]) -> f32[2] f64[2]
lax.convert_element_type(1,float) -> f32[] f64[] ; lax.convert_element_type(f64,np.float64) -> f32[2] f64[2]
lax.select(b,f64,f64) -> f32[2] f64[2] ; lax.exp(f64) -> f32[2] f64[2] ; lax.sort(i64) -> i32[2] i64[2]
lax.argmax(f64,0,np.int64) -> i32[] i64[] ; jax.jit(lambda a:a)(f64) -> f32[2] f64[2]
jax.jit(lambda a:a)(np.float64(1)) -> f32[] f64[] ; jax.jit(lambda a:a)(1.) -> ~f32[] ~f64[]
jax.jit(lambda a:a)(1) -> ~i32[] ~i64[] ; jax.jit(lambda a:a)(True) -> bool[] bool[]
jax.jit(lambda a:a+f64)(x) -> f32[2] f64[2] ; jax.grad(lambda a:(a*a).sum())(f64) -> f32[2] f64[2]
jax.grad(lambda a:a*a)(1.) -> ~f32[] ~f64[] ; jax.grad(lambda a:a*a)(np.float64(1.)) -> f32[] f64[]
jax.jvp(jnp.sin,(1.,),(1.,))[1] -> ~f32[] ~f64[] ; lax.scan(lambda c,a:(c+1,a),0,f64)[1] -> f32[2] f64[2]
lax.scan(lambda c,a:(c+a,a),0.,f64)[0] -> f32[] f64[] ; lax.while_loop(lambda c:c<3,lambda c:c+1,0) -> ~i32[] ~i64[]
lax.fori_loop(0,3,lambda k,c:c+k,0) -> ~i32[] ~i64[] ; lax.cond(True,lambda:1.,lambda:2.) -> ~f32[] ~f64[]
jax.eval_shape(lambda a:a,f64) -> f32[2] f64[2]
jax.eval_shape(lambda a:a,jax.ShapeDtypeStruct((2,),np.float64)) -> f32[2] f64[2] ; jax.device_put(f64) -> f32[2] f64[2]
jax.device_put(1.) -> ~f32[] ~f64[] ; jnp.asarray([np.float64(1.)]) -> f32[1] f64[1] ; jnp.array([1,2]) -> i32[2] i64[2]
jnp.array([[True]]) -> bool[1,1] bool[1,1] ; jnp.linalg.norm(f64) -> f32[] f64[] ; jnp.std(i64) -> f32[] f64[]
jnp.unique(i64) -> i32[2] i64[2] ; jnp.bincount(i64) -> i32[2] i64[2] ; jnp.nonzero(b)[0] -> i32[1] i64[1]
jnp.meshgrid(i64,f64)[1] -> f32[2,2] f64[2,2] ; jnp.interp(f64,f64,f64) -> f32[2] f64[2]
jnp.polyfit(f64*i64,f64,0) -> f32[1] f64[1] ; jnp.clip(f64,0,1) -> f32[2] f64[2] ; jnp.round(f64) -> f32[2] f64[2]
jnp.isnan(f64) -> bool[2] bool[2] ; jnp.einsum('i,i',f64,f64) -> f32[] f64[] ; jnp.outer(i64,f64) -> f32[2,2] f64[2,2]
jnp.triu(np.eye(2)) -> f32[2,2] f64[2,2] ; jnp.ones(2,float) -> f32[2] f64[2] ; jnp.ones(2,int) -> i32[2] i64[2]
jnp.ones(2,complex) -> c64[2] c128[2] ; jnp.ones(2,'uint') -> u32[2] u64[2] ; jnp.zeros(2,np.uint64) -> u32[2] u64[2]
jax.random.normal(jax.random.key(0),(2,),float) -> f32[2] f64[2]
jax.random.uniform(jax.random.key(0),(2,),np.float64) -> f32[2] f64[2]
jax.random.randint(jax.random.key(0),(2,),0,5) -> i32[2] i64[2] ; jax.nn.relu(f64) -> f32[2] f64[2]
jax.nn.softmax(i64) -> f32[2] f64[2] ; jax.nn.one_hot(i64,2) -> f32[2,2] f64[2,2] ; jnp.fft.fft(f64) -> c64[2] c128[2]
jnp.float32(1)*f64 -> f32[2] f64[2] ; i.at[0].set(2.5) -> i32[2] i32[2] ; x.at[0].add(f64[0]) -> f32[2] f32[2]
jnp.pad(f64,1) -> f32[4] f64[4] ; jnp.median(i64) -> f32[] f64[] ; abs(jnp.array(-1)) -> ~i32[] ~i64[]
-jnp.array(1.) -> ~f32[] ~f64[] ; jnp.array(1.)*i -> ~f32[2] ~f64[2] ; jnp.array(1)+1 -> ~i32[] ~i64[]
i[0]*2.5 -> ~f32[] ~f64[] ; x[0]*np.float64(2) -> f32[] f64[] ; round(x[0]) -> i32[] i64[] ; x.mean() -> f32[] f32[]
i.mean() -> f32[] f32[] ; x.sum(dtype=float) -> f32[] f64[] ; i.sum(dtype=np.int8) -> i8[] i8[]
x.view(np.int32) -> i32[2] i32[2] ; jnp.bool_(1) -> bool[] bool[] ; jnp.hypot(3,4) -> ~f32[] ~f64[]
jnp.add(1,2) -> ~i32[] ~i64[] ; jnp.add(1,2.) -> ~f32[] ~f64[] ; jnp.true_divide(1,2) -> ~f32[] ~f64[]
jnp.sqrt(4) -> ~f32[] ~f64[] ; jnp.abs(-1) -> ~i32[] ~i64[] ; jnp.sign(-1.) -> ~f32[] ~f64[] ; jnp.conj(1.) -> ~f32[] ~f64[]
jnp.real(c128) -> f32[2] f64[2] ; jnp.angle(c128) -> f32[2] f64[2] ; 1.0*b -> ~f32[2] ~f64[2] ; b*1 -> ~i32[2] ~i64[2]
b+b -> bool[2] bool[2] ; b*2.5 -> ~f32[2] ~f64[2] ; ~b -> bool[2] bool[2] ; -i -> i32[2] i32[2] ; +b -> bool[2] bool[2]
b&True -> bool[2] bool[2] ; i<<1 -> i32[2] i32[2] ; i^3 -> i32[2] i32[2] ; x<1 -> bool[2] bool[2] ; x%2 -> f32[2] f32[2]
i%2.0 -> ~f32[2] ~f64[2] ; divmod(i,2)[0] -> i32[2] i32[2]
lax.cond(b[0],lambda:f64[0],lambda:1.) -> ~f32[] ~f64[] ; lax.cond(b[0],lambda:1.,lambda:f64[0]) -> f32[] f64[]
lax.switch(1,[lambda:1,lambda:i64[0]]) -> ~i32[] ~i64[] ; lax.switch(1,[lambda:i64[0],lambda:1]) -> i32[] i64[]
"""
TABLE = dict(entry.strip().split(" -> ") for line in GIVEN.strip().splitlines() for entry in line.split(" ; "))
WIDE = {
    "f64": np.ones(2),
    "i64": np.arange(2),
    "u64": np.arange(2, dtype=np.uint64),
    "c128": np.ones(2) * 1j,
}


@pytest.fixture(params=[0, 1], ids=["32 bits", "64 bits"])
def width(request: pytest.FixtureRequest) -> Iterator[int]:
    with jax.enable_x64(bool(request.param)):
        yield request.param


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype:UserWarning")
@pytest.mark.filterwarnings("ignore:.*would lose part of it|.at.. computed:RuntimeWarning")
@pytest.mark.parametrize("expression", TABLE)
def test_the_type_of_a_result_is_that_of_jax(expression: str, width: int) -> None:
    modules = {"jax": jax, "jnp": jnp, "lax": lax, "np": np}
    arrays = {"x": jnp.ones(2, jnp.float32), "i": jnp.arange(2, dtype=jnp.int32), "b": jnp.array([True, False])}
    small = {"bf": jnp.ones(2, jnp.bfloat16), "u8": jnp.ones(2, jnp.uint8)}
    found = eval(expression, {**WIDE, **modules, **arrays, **small})
    found = found[0] if isinstance(found, (tuple, list)) else found
    if isinstance(found, np.dtype):
        shown = str(array_type((), found)).removesuffix("[]")
    else:
        shown = str(array_type(tuple(found.shape), np.dtype(found.dtype), bool(getattr(found, "weak_type", False))))
    assert shown == TABLE[expression].split(" ")[width]


def test_known_flat_indices_are_clamped_as_unknown_ones() -> None:
    for index in (7, -9, -1, np.array([2, 7])):
        known, unknown = jnp.unravel_index(index, (2, 3)), jax.jit(lambda i: jnp.unravel_index(i, (2, 3)))(index)
        assert [x.tolist() for x in known] == [x.tolist() for x in unknown]
    assert [int(x) for x in jnp.unravel_index(7, (2, 3))] == [1, 2]
