"""Grounds: distances and normals against closed forms and differences, smoothness, traced as in floats, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import condyle
from condyle.errors import CondyleError, SimulationError, TraceError
from condyle.simulate.terrain import MAX_HEIGHTS, Ground, HeightField, Heights, Plane, Slope, Stairs, Terrain

HEIGHTS = np.random.default_rng(1).normal(scale=0.2, size=(6, 5))
FIELD = HeightField(HEIGHTS, (0.5, 0.4), (-1.0, -0.5))
STAIRS = Stairs(0.15, 0.3, 4, rounding=0.1, start=0.5)
BUMPS = Terrain(lambda x, y: 0.3 * np.sin(2.0 * x) * np.cos(y) + 0.1 * x * y)
SLOPE = Slope(20.0, 30.0)
GROUNDS: list[Ground] = [Plane(), Plane(0.5, (1.0, 2.0, 3.0), 0.25), SLOPE, STAIRS, FIELD, BUMPS]
each_ground = pytest.mark.parametrize("ground", GROUNDS, ids=lambda g: type(g).__name__)
each_height = pytest.mark.parametrize("ground", [STAIRS, FIELD, BUMPS], ids=lambda g: type(g).__name__)

SAME = 1e-13  # the same formula, with and without fma
STEP = 1e-5  # of central differences
SLOPE_ERROR = 1e-6  # their error: the square of the step times a sixth of the third derivative, 9,000 for the stairs

coordinates = st.floats(-3.0, 3.0, allow_subnormal=False)


def compiled(ground: Ground) -> condyle.Function:
    def distance(p):
        d, n = ground.distance(p)
        return {"d": d, "n": n}

    return condyle.function(distance, p=3)


# -- all of them


@each_ground
def test_traced_as_in_floats(ground: Ground) -> None:
    function = compiled(ground)
    for p in np.random.default_rng(2).uniform(-2.0, 2.5, size=(50, 3)):
        d, n = ground.distance(p)
        traced = function(p)
        assert traced.d == pytest.approx(d, rel=SAME, abs=SAME)
        np.testing.assert_allclose(traced.n, n, rtol=SAME, atol=SAME)
        assert np.linalg.norm(n) == pytest.approx(1.0, abs=1e-15)


@each_ground
def test_the_first_step_onto_the_surface_almost_lands_on_it(ground: Ground) -> None:
    # going back along the normal by a small distance leaves an error of second order
    for p in np.random.default_rng(3).uniform(-2.0, 2.5, size=(50, 3)):
        d, n = ground.distance(p)
        near = p - (d - 1e-5) * n if not isinstance(ground, Heights) else np.array([*p[:2], ground.surface(p[0], p[1])[0] + 1e-5])
        d, n = ground.distance(near)
        assert abs(ground.distance(near - d * n)[0]) < 1e-7


@each_ground
def test_second_derivatives_are_those_of_the_first(ground: Ground) -> None:
    function = compiled(ground)
    gradient, hessian = function.jacobian("d"), function.hessian("d")
    for p in np.random.default_rng(4).uniform(-1.0, 1.5, size=(20, 3)):
        difference = [(gradient(p + e) - gradient(p - e)) / (2.0 * STEP) for e in np.eye(3) * STEP]
        # the distance to stairs has kinks in its third derivative, so a few differences straddle one
        np.testing.assert_allclose(hessian(p), difference, atol=1e-2 if ground is STAIRS else 1e-5)


@each_ground
def test_keys_tell_grounds_apart(ground: Ground) -> None:
    assert [g.key() for g in GROUNDS].count(ground.key()) == 1
    assert "np.float64" not in ground.key()


def test_the_constant_normal_is_folded() -> None:
    tape = compiled(Plane()).tape
    assert tape.operations == 0
    assert compiled(Plane(offset=0.5)).tape.operations == 1


# -- planes and slopes


@given(st.tuples(coordinates, coordinates, coordinates).filter(lambda n: max(map(abs, n)) > 1e-3), coordinates, st.floats(-1, 1))
def test_a_plane_is_where_it_says(normal, offset, along) -> None:
    plane = Plane(normal=normal, offset=offset)
    n = np.array(plane.normal)
    assert np.linalg.norm(n) == pytest.approx(1.0)
    assert plane.distance((offset + along) * n)[0] == pytest.approx(along, abs=1e-12)
    assert np.dot(n, normal) > 0.0


def test_tiny_and_huge_normals() -> None:
    assert Plane(normal=(0.0, 0.0, 1e-320)).normal == (0.0, 0.0, 1.0)
    assert Plane(normal=(3e300, 0.0, 4e300)).normal == pytest.approx((0.6, 0.0, 0.8))


def test_slopes_rise_towards_their_azimuth() -> None:
    assert Slope(0.0).plane == Plane()
    assert Slope(30.0).distance([1.0, 0.0, math.tan(math.radians(30.0))])[0] == pytest.approx(0.0, abs=1e-15)
    assert Slope(30.0, azimuth=90.0).distance([5.0, 1.0, math.tan(math.radians(30.0))])[0] == pytest.approx(0.0, abs=1e-15)
    assert Slope(30.0, azimuth=90.0).plane.normal[0] == 0.0
    assert Slope(-30.0).distance([1.0, 0.0, 0.0])[0] > 0.0


# -- heights


@each_height
def test_slopes_are_differences_of_heights(ground: Heights) -> None:
    for x, y in np.random.default_rng(5).uniform(-2.0, 2.5, size=(100, 2)):
        _, h_x, h_y = ground.surface(x, y)
        by_x = (ground.surface(x + STEP, y)[0] - ground.surface(x - STEP, y)[0]) / (2.0 * STEP)
        by_y = (ground.surface(x, y + STEP)[0] - ground.surface(x, y - STEP)[0]) / (2.0 * STEP)
        assert (h_x, h_y) == pytest.approx((by_x, by_y), abs=SLOPE_ERROR)


@each_height
def test_arrays_of_numbers(ground: Heights) -> None:
    x, y = np.random.default_rng(6).uniform(-2.0, 2.5, size=(2, 7))
    h, h_x, _ = ground.surface(x, y)
    one = [ground.surface(a, b)[:2] for a, b in zip(x, y, strict=True)]
    assert np.asarray(h).dtype == np.float64
    np.testing.assert_array_equal(np.column_stack([h, h_x]), one)


def second(ground: Heights, x: float, y: float) -> np.ndarray:
    tape = condyle.function(lambda x, y: ground.surface(x, y)[0], x=(), y=())
    hessian = tape.hessian()(x, y)
    return np.array([hessian.d2out_dx_dx, hessian.d2out_dx_dy, hessian.d2out_dy_dy])


def test_the_second_derivative_has_no_jumps() -> None:
    # at the knots, at the border, and one spacing outside of it, where the field becomes level
    for x in (-1.5, -1.0, -0.5, 0.5, 1.5, 2.0):
        before, at, after = (second(FIELD, x + e, 0.1) for e in (-1e-9, 0.0, 1e-9))
        np.testing.assert_allclose(before, at, atol=1e-6)
        np.testing.assert_allclose(after, at, atol=1e-6)
    for y in (-0.9, -0.5, 0.3, 1.1, 1.5):
        np.testing.assert_allclose(second(FIELD, 0.1, y - 1e-9), second(FIELD, 0.1, y + 1e-9), atol=1e-6)
    # where a riser begins and ends, and in the middle of a tread
    for x in (0.45, 0.55, 0.65, 0.75, 0.85):
        np.testing.assert_allclose(second(STAIRS, x - 1e-9, 0.0), second(STAIRS, x + 1e-9, 0.0), atol=1e-5)


# -- height fields


def test_a_field_passes_through_its_heights() -> None:
    for i in range(6):
        for j in range(5):
            assert FIELD.surface(-1.0 + 0.5 * i, -0.5 + 0.4 * j)[0] == pytest.approx(HEIGHTS[i, j], abs=1e-15)


@given(st.integers(2, 9), st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_any_field_passes_through_its_heights(rows, columns, seed) -> None:
    heights = np.random.default_rng(seed).uniform(-10.0, 10.0, size=(rows, columns))
    field = HeightField(heights, 0.25)
    x, y = np.meshgrid(0.25 * np.arange(rows), 0.25 * np.arange(columns), indexing="ij")
    np.testing.assert_allclose(field.surface(x, y)[0], heights, atol=1e-13)


def test_a_level_field_is_a_plane() -> None:
    field = HeightField(np.full((4, 4), 0.3), 0.5)
    for p in np.random.default_rng(7).uniform(-4.0, 5.0, size=(30, 3)):
        d, n = field.distance(p)
        assert d == pytest.approx(p[2] - 0.3, abs=1e-15)
        np.testing.assert_allclose(n, (0.0, 0.0, 1.0), atol=1e-15)


@pytest.mark.parametrize("far", [2.1, 10.0, 1e6, 1e300, math.inf])
def test_outside_a_field_is_level(far: float) -> None:
    h, h_x, _ = FIELD.surface(far, 0.3)
    assert h == FIELD.surface(2.0, 0.3)[0]
    assert abs(h_x) < 1e-15
    assert np.isfinite(FIELD.surface(-far, far)).all()
    assert np.isfinite(compiled(FIELD)(np.array([min(far, 1e300), -min(far, 1e300), 0.0])).n).all()


def test_a_field_keeps_its_heights_to_itself() -> None:
    heights = np.zeros((3, 3))
    field = HeightField(heights, 1.0)
    key = field.key()
    heights[1, 1] = 1.0
    assert field.surface(1.0, 1.0)[0] == 0.0 and field.key() == key
    assert HeightField(heights, 1.0).key() != key
    with pytest.raises(ValueError):
        field.heights[0, 0] = 1.0


# -- stairs


def test_stairs_climb() -> None:
    for x, steps in [(-1.0, 0), (0.3, 0), (0.65, 1), (0.95, 2), (1.25, 3), (1.6, 4), (99.0, 4), (math.inf, 4), (-math.inf, 0)]:
        h, h_x, h_y = STAIRS.surface(x, 0.0)
        assert h == pytest.approx(0.15 * steps, abs=1e-15) and h_x == 0.0 and h_y == 0.0
    assert STAIRS.surface(0.5, 0.0)[0] == pytest.approx(0.075)
    assert STAIRS.surface(0.5, 0.0)[1] == pytest.approx(1.875 * 0.15 / 0.1)


def test_stairs_without_treads_are_smooth_too() -> None:
    x = np.linspace(-0.5, 2.0, 2001)
    h = Stairs(-0.1, 0.3, 3, rounding=0.3).surface(x, 0.0)[0]
    assert np.all(np.diff(h) <= 0.0) and np.max(np.abs(np.diff(h, 3))) < 1e-5


# -- terrain


def test_terrain_takes_any_height() -> None:
    flat = Terrain(lambda x, y: 0.25)
    assert flat.distance([1.0, 2.0, 1.0])[0] == 0.75
    hill = Terrain(lambda x, y: condyle.where(x > 0.0, x * x * x, 0.0))
    assert hill.surface(2.0, 0.0) == pytest.approx((8.0, 12.0, 0.0))
    assert hill.surface(-2.0, 0.0) == (0.0, 0.0, 0.0)


def test_terrain_on_one_traced_coordinate() -> None:
    function = condyle.function(lambda z, x: BUMPS.surface(x, 0.5)[1] + z, z=(), x=())
    assert function(0.0, 0.3) == pytest.approx(BUMPS.surface(0.3, 0.5)[1], rel=SAME)


def test_terrain_inside_a_loop() -> None:
    function = condyle.function(lambda x: condyle.loop(lambda i, s: s - 0.1 * BUMPS.surface(s, 0.2)[1], x, 5), x=())
    x = 0.4
    for _ in range(5):
        x = x - 0.1 * float(BUMPS.surface(x, 0.2)[1])
    assert function(0.4) == pytest.approx(x, rel=SAME)


def test_terrain_keys_follow_the_function() -> None:
    assert Terrain(lambda x, y: np.sin(x)).key() == Terrain(lambda a, b: np.sin(a)).key()
    assert Terrain(lambda x, y: np.sin(x)).key() != Terrain(lambda x, y: np.sin(y)).key()


# -- what is refused


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: Plane(normal=(0, 0, 0)), "no direction"),
        (lambda: Plane(normal=(0, 0, math.nan)), "normal"),
        (lambda: Plane(normal=(0, 1)), "3 finite numbers"),
        (lambda: Plane(normal="001"), "normal"),
        (lambda: Plane(friction=-0.1), "friction"),
        (lambda: Plane(friction=math.inf), "friction"),
        (lambda: Plane(offset=None), "offset"),
        (lambda: Slope(90.0), "between -90 and 90"),
        (lambda: Slope(math.nan), "degrees"),
        (lambda: Stairs(0.1, 0.0, 3), "run"),
        (lambda: Stairs(0.1, 0.3, 3, rounding=0.4), "rounding"),
        (lambda: Stairs(0.1, 0.3, 0), "count"),
        (lambda: Stairs(0.1, 0.3, 2.5), "count"),
        (lambda: Stairs(math.nan, 0.3, 2), "rise"),
        (lambda: HeightField(np.zeros(4), 1.0), "2 by 2"),
        (lambda: HeightField(np.zeros((1, 4)), 1.0), "2 by 2"),
        (lambda: HeightField([[1.0], [2.0, 3.0]], 1.0), "grid of numbers"),
        (lambda: HeightField(np.full((3, 3), np.nan), 1.0), r"heights\[0, 0\]"),
        (lambda: HeightField(np.zeros((3, 3)), 0.0), "spacing"),
        (lambda: HeightField(np.zeros((3, 3)), (1.0, -1.0)), "spacing"),
        (lambda: HeightField(np.zeros((3, 3)), 1.0, (0.0,)), "origin"),
        (lambda: HeightField(np.zeros((65, 65)), 1.0), f"more than {MAX_HEIGHTS:,}"),
        (lambda: Terrain(0.5), "function of x and y"),
        (lambda: Terrain(lambda x, y: np.array([x, y])), "one number"),
        (lambda: Terrain(lambda x, y: np.sqrt(x * x + y * y)), "not finite"),
        (lambda: Terrain(lambda x, y: np.log(x)), "not finite"),
    ],
)
def test_refused(make, part: str) -> None:
    with pytest.raises(SimulationError, match=part) as caught:
        make()
    assert isinstance(caught.value, CondyleError) and "\n" not in str(caught.value)


def test_an_if_in_a_height_is_explained() -> None:
    with pytest.raises(TraceError, match="where"):
        Terrain(lambda x, y: x if x > 0.0 else 0.0)
