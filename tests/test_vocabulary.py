"""The rules of scripts/check_words.py themselves: forbidden words and missing docstrings are found."""

import ast
from pathlib import Path

import pytest
from check_words import undocumented, wrong_words


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def carriers(x): pass", 2),
        ("def f(Layer): pass", 1),
        ("class Corners: pass", 1),
        ("held = 1", 1),
        ("def f():\n    held = 1", 0),
        ("# the solver converges", 0),
        ("# the solver arrives", 1),
        ("'machine code'", 0),
        ("'the machine'", 1),
    ],
)
def test_words_are_found(source: str, count: int) -> None:
    assert len(wrong_words(Path("file.py"), source)) == count


def test_a_module_s_name_is_looked_at() -> None:
    assert wrong_words(Path("native.py"), "") == ["1: 'native' (usual: a module named after its content)"]
    assert wrong_words(Path("native.md"), "") == wrong_words(Path("llvm.py"), "") == []


def test_words_that_are_allowed_are_left_out() -> None:
    assert wrong_words(Path("file.md"), "the solver arrives", "arrives") == []
    assert wrong_words(Path("file.md"), "one\nthe machine arrives", "arrives") == [
        "2: 'machine' (usual: backend, robot or computer)"
    ]


def test_missing_docstrings_are_found() -> None:
    source = (
        'class A:\n    "a"\n    def f(self): pass\n    def _g(self): pass\n    @x.setter\n    def x(self, v): pass\ndef h(): pass'
    )
    assert [name for _, name in undocumented(ast.parse(source))] == ["the module", "A.f", "h"]
