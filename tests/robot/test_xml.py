"""XML is read to plain elements with lines; what is not plain XML of a reasonable size is refused with a sentence."""

import pytest

from condyle.errors import RobotError
from condyle.robot.fields import number, numbers
from condyle.robot.xml import MAX_ATTRIBUTES, MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS, MAX_VALUE, read_xml, write_xml


def test_elements_know_their_place() -> None:
    root = read_xml(
        '<?xml version="1.0"?>\n<!-- hello -->\n<robot name="a">\n  <link\n name="b"/>\n text <x>1</x></robot>', "r.urdf"
    )
    assert (root.tag, root.attributes, root.where) == ("robot", {"name": "a"}, "r.urdf:3")
    assert [(child.tag, child.where) for child in root.children] == [("link", "r.urdf:4"), ("x", "r.urdf:6")]
    assert root.text.strip() == "text" and root.children[1].text == "1"
    assert [element.tag for element in root.walk()] == ["robot", "link", "x"]


def test_prefixes_stay() -> None:
    root = read_xml('<robot xmlns:xacro="http://ros.org/wiki/xacro"><xacro:if value="1"/></robot>', "r.xacro")
    assert root.children[0].tag == "xacro:if"


def test_what_is_written_reads_the_same() -> None:
    root = read_xml('<a x="1 &lt; 2 &amp; &quot;"><b>1 &lt; 2</b><c><d/></c></a>', "a")
    again = read_xml(write_xml(root), "a")
    assert write_xml(again) == write_xml(root)
    assert again.attributes == {"x": '1 < 2 & "'} and again.children[0].text == "1 < 2"


def test_a_byte_order_mark_and_other_letters_are_fine() -> None:
    assert read_xml(b"\xef\xbb\xbf<a/>", "a").tag == "a"
    assert read_xml("\ufeff<a n='\u00e4\u4e2d'/>", "a").attributes["n"] == "\u00e4\u4e2d"
    assert read_xml("<?xml version='1.0' encoding='latin-1'?><a n='b'/>", "a").attributes["n"] == "b"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (b"", "a.urdf:1: the file is empty"),
        (b"  \n ", "a.urdf:1: the file is empty"),
        (b"<a>\n<b>", "a.urdf:2: the XML is broken inside <b> of line 2: no element found"),
        (b"<a>\n</b>", "a.urdf:2: the XML is broken inside <a> of line 1: mismatched tag"),
        (
            b"<mujoco>\n</mujoco>\n</mujoco>",
            "a.urdf:3: the XML is broken: a second </mujoco> stands after the one that ends the file: delete one of them",
        ),
        (b"<a/><b/>", "a.urdf:1: the XML is broken: junk after document element"),
        (b"hello", "a.urdf:1: the XML is broken: syntax error"),
        (b"<a x='1' x='2'/>", "a.urdf:1: the XML is broken: duplicate attribute"),
        (b"<a>\n\0</a>", "a.urdf:2: the file has a NUL byte"),
        (b"<a>\n\xff</a>", "a.urdf:2: byte 0xff is not UTF-8"),
        ("<a/>".encode("utf-16"), "a.urdf:1: the file is UTF-16: save it as UTF-8"),
        ("<?xml version='1.0' encoding='latin-1'?><a n='\u00e4'/>".encode(), "a.urdf:1: the file says it is latin-1"),
        ("<a n='\u00e4'/>".encode("latin-1"), "a.urdf:1: byte 0xe4 is not UTF-8"),
        (b"<!DOCTYPE a>\n<a/>", "a.urdf:1: document types and entities"),
        (b"<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", "a.urdf:1: document types and entities"),
        (b"<a>&x;</a>", "a.urdf:1: the XML is broken inside <a> of line 1: undefined entity"),
        (b"<a><?php x ?></a>", "a.urdf:1: <?php ...?> is a processing instruction"),
        (b"<a>" * (MAX_DEPTH + 1), f"a.urdf:1: <a> is nested deeper than {MAX_DEPTH} elements"),
        (b"<a>" + b"<b/>" * MAX_ELEMENTS + b"</a>", f"a.urdf:1: the file has more than {MAX_ELEMENTS:,} elements"),
        (b"<a x='" + b"y" * (MAX_VALUE + 1) + b"'/>", "a.urdf:1: <a> has an attribute of 65,537 characters"),
        (b"<a>" + b"y" * (MAX_VALUE + 1) + b"</a>", "a.urdf:1: <a> has more than 65,536 characters of text"),
        (b"<a " + b" ".join(b"x%d=''" % i for i in range(MAX_ATTRIBUTES + 1)) + b"/>", "a.urdf:1: <a> has 65 attributes"),
        (b" " * (MAX_BYTES + 1), "a.urdf:1: the file has 16,777,217 bytes"),
    ],
)
def test_refusals(source: bytes, sentence: str) -> None:
    with pytest.raises(RobotError) as error:
        read_xml(source, "a.urdf")
    assert str(error.value).startswith(sentence)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1.0), ("-1.5", -1.5), ("+2.", 2.0), (".5", 0.5), ("1e-3", 1e-3), (" 7\n", 7.0), ("1E+2", 100.0), ("1e-999", 0.0)],
)
def test_numbers(text: str, value: float) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("1,5", "write 1.5"),
        ("nan", "only finite numbers"),
        ("-inf", "only finite numbers"),
        ("0x10", "write it in decimal"),
        ("1_000", "write it without underscores"),
        ("90deg", "without the unit 'deg'"),
        ("5 mm", "without the unit 'mm'"),
        ("", "it is empty"),
        ("1e", "write it as"),
        ("--1", "write it as"),
        ("1 2", "write it as"),
        ("\u0663", "write it as"),
        ("1e999", "too large"),
        ("${pi}", "this is a xacro expression"),
    ],
)
def test_what_is_not_a_number(text: str, advice: str) -> None:
    with pytest.raises(ValueError, match=advice.replace("(", r"\(")):
        number(text)


def test_vectors() -> None:
    assert numbers(" 1 2\t3\n", 3) == (1.0, 2.0, 3.0)
    with pytest.raises(ValueError, match="has 2 numbers, not 3"):
        numbers("1 2", 3)
    with pytest.raises(ValueError, match="separate numbers by spaces"):
        numbers("1, 2, 3", 3)
    with pytest.raises(ValueError, match="separate numbers by spaces"):
        numbers("1,2,3", 3)
    with pytest.raises(ValueError, match=r"write 1\.5"):
        numbers("1,5 0 0", 3)
