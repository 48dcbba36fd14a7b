"""Xacro expands to what the xacro package makes of it, without its dangers; lines still point to the source."""

import math
from pathlib import Path

import pytest

from condyle.errors import RobotError
from condyle.robot.check import checked
from condyle.robot.expressions import Evaluator
from condyle.robot.paths import Places
from condyle.robot.xacro import expand_xacro, read_xacro
from condyle.robot.xml import Element, read_xml, write_xml

HEAD = '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro">'


def expand(body: str, **arguments: str) -> str:
    """What stands inside the robot after expansion, on one line."""
    root = expand_xacro(f"{HEAD}{body}</robot>", "r.xacro", Places.around("r.xacro"), arguments)
    return "".join("".join(line.strip() for line in write_xml(child).splitlines()) for child in root.children)


# -- expressions


def evaluate(text: str, **names: object) -> object:
    return Evaluator().evaluate(text, names.__getitem__, {})


@pytest.mark.parametrize(
    "text",
    [
        "1 + 2 * 3 - 4 / 5",
        "7 // 2 + 7 % 3 + 2 ** 10",
        "-(+3)",
        "pi / 2",
        "sin(0.5) + cos(0.5) * tan(0.1)",
        "atan2(1, 2) + asin(0.1) + acos(0.2) + atan(3)",
        "sqrt(2) + hypot(3, 4)",
        "radians(90) + degrees(1)",
        "abs(-3) + min(1, 2) + max([4, 5]) + round(2.567, 2) + len('abc')",
        "int(3.7) + float('2.5')",
        "'a' + str(5)",
        "1 < 2 <= 2 != 3",
        "1 if 2 > 3 else 'no'",
        "True and 0 or 'x'",
        "not (1 == 1)",
        "[1, 2, [3, 4]][2][-1]",
        "{'a': 1, 'b': 2}['b']",
        "'a' in ['a', 'b'] and 3 not in [1]",
        "[1] + [2, 3]",
        "floor(2.5) + ceil(2.5)",
    ],
)
def test_expressions_mean_what_python_means(text: str) -> None:
    # the texts are those above, and the names only mathematics
    expected = eval(text, {**vars(math), "__builtins__": __builtins__})
    assert evaluate(text) == expected


def test_names() -> None:
    assert evaluate("a * b[1]", a=3, b=[1, 2]) == 6
    assert evaluate("math.pi + math.sin(0)") == math.pi
    with pytest.raises(ValueError, match="'c' is not defined"):
        evaluate("a + c", a=1)


# -- the language


def test_properties() -> None:
    assert expand('<xacro:property name="a" value="2"/><x v="${a*1.5}" w="${a}m"/>') == '<x v="3.0" w="2m"/>'
    # lazy: what it uses may come later
    late = '<xacro:property name="a" value="${b+1}"/><xacro:property name="b" value="2"/><x v="${a}"/>'
    assert expand(late) == '<x v="3"/>'
    twice = '<xacro:property name="a" value="1"/><xacro:property name="a" value="${a+1}" lazy_eval="false"/><x v="${a}"/>'
    assert expand(twice) == '<x v="2"/>'
    assert expand('<xacro:property name="a" value="1"/><xacro:property name="a" default="2"/><x v="${a}"/>') == '<x v="1"/>'
    assert expand('<xacro:property name="a" default="2"/><x v="${a}"/>') == '<x v="2"/>'
    assert expand('<xacro:property name="a"><o/><p v="${b}"/></xacro:property><xacro:property name="b" value="1"/>'
                  '<xacro:insert_block name="a"/>') == '<o/><p v="1"/>'  # fmt: skip
    assert expand("<x v='$${a} $(not'/>".replace("$(not", "$5")) == '<x v="${a} $5"/>'


def test_macros() -> None:
    leg = '<xacro:macro name="leg" params="a b:=2 c:=^|3 d:=\'x y\' *o **p"><l v="${a} ${b} ${c} ${d}">'
    leg += '<xacro:insert_block name="o"/><xacro:insert_block name="p"/></l></xacro:macro>'
    assert expand(leg + '<xacro:leg a="1"><o/><p><q/><r/></p></xacro:leg>') == '<l v="1 2 3 x y"><o/><q/><r/></l>'
    outer = '<xacro:property name="c" value="7"/><xacro:leg a="1" b="${c}"><o/><p/></xacro:leg>'
    assert expand(leg + outer) == '<l v="1 7 7 x y"><o/></l>'
    count = '<xacro:macro name="n" params="i"><x v="${i}"/><xacro:if value="${i &lt; 3}">'
    count += '<xacro:n i="${i+1}"/></xacro:if></xacro:macro>'
    assert expand(count + '<xacro:n i="1"/>') == '<x v="1"/><x v="2"/><x v="3"/>'
    assert expand(count + '<xacro:call macro="n" i="3"/>') == '<x v="3"/>'


def test_scopes() -> None:
    make = '<xacro:macro name="m" params=""><xacro:property name="a" value="{}" scope="{}"/></xacro:macro>'
    assert expand(make.format(5, "global") + '<xacro:m/><x v="${a}"/>') == '<x v="5"/>'
    assert expand(make.format(5, "parent") + '<xacro:m/><x v="${a}"/>') == '<x v="5"/>'
    with pytest.raises(RobotError, match="'a' is not defined"):
        expand('<xacro:macro name="m" params=""><xacro:property name="a" value="1"/></xacro:macro><xacro:m/><x v="${a}"/>')


def test_conditions_arguments_and_elements() -> None:
    for yes in ("1", "true", "True", "${1 == 1}", "${2.5}"):
        assert expand(f'<xacro:if value="{yes}"><x/></xacro:if><xacro:unless value="{yes}"><y/></xacro:unless>') == "<x/>"
    for no in ("0", "false", "False", "${1 == 2}", "0.0"):
        assert expand(f'<xacro:if value="{no}"><x/></xacro:if><xacro:unless value="{no}"><y/></xacro:unless>') == "<y/>"
    assert expand('<xacro:arg name="n" default="4"/><x v="${$(arg n) * 2}" w="$(eval n + 1)"/>') == '<x v="8" w="5"/>'
    assert expand('<xacro:arg name="n" default="4"/><x v="${$(arg n) * 2}"/>', n="5") == '<x v="10"/>'
    assert expand('<xacro:element xacro:name="x${1}"><xacro:attribute name="v" value="${2}"/></xacro:element>') == '<x1 v="2"/>'


def test_lines_point_to_the_source(tmp_path: Path) -> None:
    (tmp_path / "leg.xacro").write_text(
        f'{HEAD}\n<xacro:macro name="leg" params="id">\n<link name="${{id}}">\n'
        "<inertial><mass/><inertia/></inertial></link></xacro:macro></robot>"
    )
    text = f'{HEAD}\n<xacro:include filename="leg.xacro"/>\n<xacro:leg id="a"/></robot>'
    with pytest.raises(RobotError) as error:
        read_xacro(text, str(tmp_path / "robot.xacro"))
    assert error.value.problems[0] == f"{tmp_path}/leg.xacro:4: link 'a' <mass>: attribute 'value' is missing"


# -- against the xacro package

ARM = (
    HEAD
    + """
  <xacro:include filename="parts/materials.xacro"/>
  <xacro:include filename="parts/link.xacro"/>
  <xacro:arg name="prefix" default="left_"/>
  <xacro:arg name="limited" default="true"/>
  <xacro:property name="prefix" value="$(arg prefix)"/>
  <xacro:property name="lengths" value="${[0.1273, 0.612, 0.5723]}"/>
  <xacro:property name="masses" value="${dict_like}"/>
  <xacro:property name="dict_like" value="${[7.778, 12.93, 3.87]}"/>
  <link name="${prefix}base"/>
  <xacro:macro name="arm" params="n:=0 parent">
    <xacro:if value="${n &lt; 3}">
      <xacro:arm_link name="${prefix}link_${n}" parent="${parent}" mass="${masses[n]}" length="${lengths[n]}"
                      axis="${'0 0 1' if n == 0 else '0 1 0'}">
        <origin xyz="0 0 ${0.0 if n == 0 else lengths[n-1]}" rpy="0 ${pi/2 if n == 1 else 0.0} 0"/>
        <limits><limit lower="${-radians(180)}" upper="${radians(180)}" effort="${330.0 / 2**n}" velocity="2.16"/></limits>
      </xacro:arm_link>
      <xacro:arm n="${n+1}" parent="${prefix}link_${n}"/>
    </xacro:if>
  </xacro:macro>
  <xacro:arm parent="${prefix}base"/>
</robot>"""
)
LINK = (
    HEAD
    + """
  <xacro:property name="radius" value="0.05"/>
  <xacro:macro name="cylinder_inertia" params="m r l *origin">
    <inertial>
      <xacro:insert_block name="origin"/>
      <mass value="${m}"/>
      <inertia ixx="${m*(3*r*r + l**2)/12.0}" ixy="0" ixz="0" iyy="${m*(3*r*r + l**2)/12.0}" iyz="0" izz="${m*r**2/2.0}"/>
    </inertial>
  </xacro:macro>
  <xacro:macro name="arm_link" params="name parent mass length axis:='0 0 1' *origin **limits color:=^|steel">
    <link name="${name}">
      <xacro:cylinder_inertia m="${mass}" r="${radius}" l="${length}"><origin xyz="0 0 ${length/2}"/></xacro:cylinder_inertia>
      <visual><geometry><cylinder radius="${radius}" length="${length}"/></geometry><material name="${color}"/></visual>
    </link>
    <joint name="${name}_joint" type="revolute">
      <parent link="${parent}"/><child link="${name}"/>
      <xacro:insert_block name="origin"/>
      <axis xyz="${axis}"/>
      <xacro:if value="$(arg limited)"><xacro:insert_block name="limits"/></xacro:if>
      <xacro:unless value="$(arg limited)"><limit effort="1" velocity="1" lower="-9" upper="9"/></xacro:unless>
    </joint>
  </xacro:macro>
</robot>"""
)
MATERIALS = (
    HEAD
    + '<xacro:property name="grey" value="0.5"/>'
    + '<material name="steel"><color rgba="${grey} ${grey} ${grey} 1"/></material></robot>'
)
WALKER = (
    HEAD
    + """
  <xacro:property name="body_l" value="0.6"/><xacro:property name="body_w" value="${body_l / 2}"/>
  <link name="trunk"><inertial><mass value="${4 + body_l}"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <xacro:macro name="leg" params="name front:=1 left:=1">
    <xacro:property name="x" value="${front * body_l / 2}"/>
    <xacro:property name="side" value="${'l' if left > 0 else 'r'}"/>
    <link name="${name}_${side}"><inertial><mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
    <joint name="${name}_${side}_hip" type="continuous"><parent link="trunk"/><child link="${name}_${side}"/>
      <origin xyz="${x} ${left * body_w / 2} 0"/><axis xyz="1 0 0"/></joint>
  </xacro:macro>
  <xacro:macro name="pair" params="name front"><xacro:leg name="${name}" front="${front}"/>
    <xacro:leg name="${name}" front="${front}" left="-1"/></xacro:macro>
  <xacro:pair name="f" front="1"/><xacro:pair name="h" front="-1"/>
</robot>"""
)
FILES = {"arm.xacro": ARM, "parts/link.xacro": LINK, "parts/materials.xacro": MATERIALS, "walker.xacro": WALKER}


def flat(root: Element) -> list[tuple[str, dict[str, str]]]:
    return [(e.tag, {k: v for k, v in e.attributes.items() if not k.startswith("xmlns")}) for e in root.walk()]


@pytest.mark.parametrize("file", ["arm.xacro", "walker.xacro"])
@pytest.mark.parametrize("arguments", [{}, {"prefix": "right_", "limited": "false"}])
def test_as_the_xacro_package(file: str, arguments: dict[str, str], tmp_path: Path) -> None:
    xacro = pytest.importorskip("xacro")
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    path = tmp_path / file
    expected = read_xml(xacro.process_file(str(path), mappings=dict(arguments)).toxml(), file)
    ours = expand_xacro(path.read_bytes(), str(path), Places.around(str(path)), arguments)
    assert flat(ours) == flat(expected)
    robot = checked(read_xacro(path.read_bytes(), str(path), arguments=arguments))
    assert len(robot.joints) == (3 if file == "arm.xacro" else 4)


# -- files


def test_packages_and_includes(tmp_path: Path) -> None:
    for name, text in {
        "packages/parts/leg.xacro": f'{HEAD}<xacro:include filename="foot.xacro"/><leg d="$(find parts)"/></robot>',
        "packages/parts/foot.xacro": f"{HEAD}<foot/></robot>",
        "outside.xacro": f"{HEAD}<no/></robot>",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "link.xacro").symlink_to(tmp_path / "outside.xacro")

    def include(name: str, more: str = "") -> list[str]:
        text = f'{HEAD}<xacro:include filename="{name}" {more}/></robot>'
        file = str(tmp_path / "own" / "r.xacro")
        root = expand_xacro(text, file, Places.around(file, package_dirs=[tmp_path / "packages"]))
        return [child.tag for child in root.children]

    assert include("$(find parts)/leg.xacro") == ["foot", "leg"]
    assert include("package://parts/foot.xacro") == ["foot"]
    assert include("$(dirname)/../packages/parts/foot.xacro") == ["foot"]
    assert include("nothing.xacro", 'optional="true"') == []
    for bad, sentence in {
        "nothing.xacro": "is not found in the allowed folders",
        "../outside.xacro": "leads out of the allowed folders",
        "link.xacro": "leads out of the allowed folders",
        "/etc/passwd": "is not found in the allowed folders",
        "https://example.org/a.xacro": "is not allowed",
        "$(find nobody)/a.xacro": "the package is in none of the package folders",
        "$(env HOME)/a.xacro": "must not depend on the environment",
    }.items():
        with pytest.raises(RobotError, match=sentence):
            include(bad)
