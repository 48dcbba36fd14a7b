"""The language of xacro, feature by feature, against the xacro package; and trees of packages in the shape of published ones."""

from pathlib import Path

import pytest

from condyle.errors import RobotError
from condyle.robot.check import checked
from condyle.robot.load import describe
from condyle.robot.paths import Places
from condyle.robot.report import Report
from condyle.robot.xacro import expand_xacro
from condyle.robot.xml import Element, read_xml

HEAD = '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro">'

FILES = {
    "limits.yaml": """
joint_limits:
  shoulder: {min: !degrees -360.0, max: !degrees 180 * 2, effort: 150.0, has_limits: true}
  elbow: &elbow {min: -3.14159, max: 3.14159, effort: 28}
  wrist: {<<: *elbow, effort: 9.5}
offsets: [0.1, 0.2e-1, 1.0e-3, !inches 2, !millimeters 12.5]
names: [left, 'right side', "5"]
none: ~
size: {x: !meters 1, y: !foot 1, z: !radians pi/2}
""",
    "plain.yaml": "- 1\n- {a: 2, get: 3}\n",
    "part.xacro": f"""{HEAD}
  <xacro:property name="width" value="3"/>
  <xacro:property name="twice" value="${{2*width}}"/>
  <xacro:macro name="rod" params="length:=1"><rod l="${{length}}" w="${{width}}" outer="${{outer}}"/></xacro:macro>
  <xacro:macro name="up"><xacro:property name="seen" value="${{width}}" scope="parent"/></xacro:macro>
</robot>""",
    "more_1.xacro": f'{HEAD}<one d="here"/></robot>',
    "more_2.xacro": f"{HEAD}<two/></robot>",
}

# each is expanded by the package and by us, and must give the same elements
SAME = {
    "lists": '<xacro:property name="a" value="${[0, 1+1, 2]}"/><x v="${a}" w="${a[1]}" s="${a[::-1]}" t="${(1, 2)}"/>',
    "dict()": '<xacro:property name="d" value="${dict(a=1, b=dict(c=[1,2]))}"/><x v="${d}" w="${d[\'b\'][\'c\'][1]}"/>',
    "dotify": '<xacro:property name="d" value="${xacro.dotify(dict(a=1, b=dict(c=2)))}"/><x v="${d.b.c + d.a}"/>',
    "split": "<xacro:property name=\"p\" value=\"1 2.5 3\"/>"
    "<x v=\"${p.split(' ')[1]}\" w=\"${[float(i)*2 for i in p.split()]}\"/>",
    "methods": "<x a=\"${' ab '.strip().upper()}\" b=\"${'-'.join(['a','b'])}\" c=\"${'aXa'.replace('a', 'b').lower()}\""
    " d=\"${'left_arm'.startswith('left')}\" e=\"${'x'.zfill(3)}\" f=\"${'a,b'.partition(',')}\" g=\"${'abc'.find('c')}\"/>",
    "percent": "<x d=\"${'%s_%02d %.1f%%' % ('a', 3, 2.25)}\" e=\"${'%(k)s' % dict(k=1)}\"/>",
    "comprehensions": '<x a="${[i*j for i in range(3) for j in range(3) if i != j]}" b="${python.sum([i for i in range(4)])}"/>',
    "generator": '<x a="${max(i*i for i in [1, -3, 2])}" b="${dict((k, len(k)) for k in [\'a\', \'bb\'])}"/>',
    "functions": '<x a="${python.sorted([3,1,2])}" b="${list(map(str, [1, 2]))}" c="${python.all([1, 0])}" d="${min(3, 1)}"'
    ' e="${python.list(python.zip([1,2], [3,4]))}" f="${python.list(python.enumerate([5]))}" g="${round(2.567, 1)}"/>',
    "math": '<x a="${math.sqrt(16)}" b="${math.floor(-1.5)}" c="${floor(2.5)}" d="${math.inf}" e="${-inf}"/>',
    "ternary": '<xacro:property name="n" value="none"/><x v="${\'\' if n == \'none\' else n + \'_\'}" y="${n is None}"/>',
    "membership": "<xacro:property name=\"d\" value=\"${dict(a=1)}\"/>"
    "<x v=\"${'a' in d}\" w=\"${d.get('b', 4)}\" k=\"${list(d.keys())}\"/>",
    "literals": '<xacro:property name="a" value="1_000"/>'
    '<xacro:property name="b" value="\'5\'"/><xacro:property name="c" value="1e3"/>'
    '<xacro:property name="d" value="inf"/><x a="${a}" b="${b}" c="${c}" d="${d}" e="${b + 1}" f="${c + 1}"/>',
    "if": "".join(
        f'<xacro:if value="{v}"><y/></xacro:if><xacro:unless value="{v}"><n/></xacro:unless>'
        for v in ("true", "False", "1", "0", "${1.5}", "${[]}", "${None}", "${'0'}", "${'True'}", "${dict()}", "${[0]}")
    ),
    "escape": '<x v="$${a} $$(b) $$${c} 5$ $"/>',
    "text": "<x>${1+1} and $(arg n)</x>",
    "eval": '<x v="$(eval n + 1)" w="$(arg n)$(arg n)"/>',
    "scopes": '<xacro:macro name="m" params="k"><xacro:property name="g" value="${k*2}" scope="global"/>'
    '<xacro:macro name="inner"><x v="${k}"/></xacro:macro><xacro:inner/></xacro:macro>'
    '<xacro:macro name="o"><xacro:m k="4"/><y v="${g}"/></xacro:macro><xacro:o/><z v="${g}"/>',
    "defaults": '<xacro:property name="a" value="7"/><xacro:macro name="m" params="a:=^ b:=^|9 c:=${a+1} d:=\'x y\' e=3">'
    '<x v="${a} ${b} ${c} ${d} ${e}"/></xacro:macro><xacro:m/><xacro:m a="1" b="2"/>',
    "blocks": '<xacro:macro name="m" params="*one **all"><xacro:insert_block name="one"/><xacro:insert_block name="all"/>'
    '<xacro:insert_block name="all"/></xacro:macro><xacro:m><o v="${1+1}"/><c><p/><q/></c></xacro:m>',
    "block property": '<xacro:property name="b"><p v="${late}"/></xacro:property><xacro:property name="late" value="5"/>'
    '<xacro:insert_block name="b"/>',
    "call": '<xacro:macro name="m" params="a"><x v="${a}"/></xacro:macro><xacro:property name="w" value="m"/>'
    '<xacro:call macro="${w}" a="5"/>',
    "element": '<xacro:element xacro:name="${\'a\' + \'b\'}" k="1"><xacro:attribute name="v" value="2${2}"/></xacro:element>',
    "remove": '<xacro:property name="a" value="1"/><xacro:property name="a" remove="true"/><xacro:property name="a" default="2"/>'
    '<x v="${a}"/>',
    "eager": '<xacro:property name="a" value="1"/><xacro:property name="b" value="${a}" lazy_eval="false"/>'
    '<xacro:property name="a" value="2"/><x v="${b}"/>',
    "name of a property": '<xacro:property name="k" value="a"/><xacro:property name="${k}_b" value="5"/><x v="${a_b}"/>',
    "yaml": '<xacro:property name="y" value="${xacro.load_yaml(\'limits.yaml\')}"/>'
    '<xacro:property name="l" value="${y[\'joint_limits\']}"/>'
    '<x a="${l[\'shoulder\'][\'max\']}" b="${l.shoulder.min}" c="${y.offsets}" d="${l.wrist}" e="${y.names[1]}" f="${y.none}"'
    ' g="${y.size.z + y.size.y}" h="${y.offsets[3] * 2}"/><xacro:if value="${l.shoulder.has_limits}"><yes/></xacro:if>',
    "yaml list": '<xacro:property name="y" value="${load_yaml(\'plain.yaml\')}"/><x v="${y[0]}" w="${y[1].a}" n="${len(y)}"/>',
    "yaml in a parameter": '<xacro:macro name="m" params="c"><x v="${c.joint_limits.elbow.effort}"/></xacro:macro>'
    "<xacro:m c=\"${xacro.load_yaml('limits.yaml')}\"/>",
    "namespace": '<xacro:property name="outer" value="7"/>'
    '<xacro:include filename="part.xacro" ns="p"/><xacro:property name="width" value="1"/>'
    '<x v="${p.width}" w="${p.twice}" u="${width}"/><xacro:p.rod length="5"/><xacro:call macro="p.rod"/>'
    '<xacro:p.up/><y v="${seen}"/>',
    "wildcards": '<xacro:include filename="more_*.xacro"/><xacro:include filename="absent.xacro" optional="true"/>',
    "messages": "<x v=\"a${xacro.warning('careful')}${xacro.message('hello')}b\"/>",
    "arguments": "<x v=\"${xacro.arg('n') + 'x'}\" w=\"${$(arg n) * 2}\"/>",
    "tokenize": "<x v=\"${xacro.tokenize('a,b; c')}\"/>",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("xacro")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def flat(root: Element) -> list[tuple[str, dict[str, str], str]]:
    return [(e.tag, {k: v for k, v in e.attributes.items() if not k.startswith("xmlns")}, e.text.strip()) for e in root.walk()]


def expand(body: str, folder: Path, report: Report | None = None, **arguments: str) -> Element:
    text = f'{HEAD}<xacro:arg name="n" default="4"/>{body}</robot>'
    file = str(folder / "r.xacro")
    return expand_xacro(text, file, Places.around(file), arguments, report)


@pytest.mark.parametrize("what", SAME)
def test_as_the_xacro_package(what: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    xacro = pytest.importorskip("xacro")
    (folder / "r.xacro").write_text(f'{HEAD}<xacro:arg name="n" default="4"/>{SAME[what]}</robot>')
    expected = read_xml(xacro.process_file(str(folder / "r.xacro"), mappings={}).toxml(), "r.xacro")
    assert flat(expand(SAME[what], folder)) == flat(expected)


def test_what_was_taken_is_in_the_report(folder: Path) -> None:
    report = Report()
    body = '<x v="$(optenv ARM_X 0.19 0 0.1)" w="${xacro.warning(\'no inertia\')}" u="$(eval optenv(\'HOME\', 5))"/>'
    root = expand(body, folder, report)
    assert root.children[0].attributes == {"v": "0.19 0 0.1", "w": "", "u": "5"}
    notes = [note.what for note in report.notes]
    assert "kept: xacro.warning: no inertia" in notes
    assert "ignored: environment variable 'ARM_X', which is not looked at: the default '0.19 0 0.1' is taken" in notes
    assert expand(body, folder, None, **{"env:ARM_X": "1"}).children[0].attributes["v"] == "1"
    early = '<robot name="$(arg name)" xmlns:xacro="x"><xacro:arg name="name" default="ur"/></robot>'
    report = Report()
    assert expand_xacro(early, "r.xacro", Places.around("r.xacro"), {}, report).attributes["name"] == "ur"
    assert "is used above its <xacro:arg>" in report.notes[0].what


# -- trees of packages, in the shape of published ones

MANIFEST = "<package><name>{}</name></package>"
ARM = {
    "package.xml": MANIFEST.format("arm_description"),
    "urdf/arm.urdf.xacro": """<robot name="$(arg name)" xmlns:xacro="http://wiki.ros.org/xacro">
  <xacro:arg name="name" default="arm"/><xacro:arg name="arm_type" default="x"/>
  <xacro:arg name="limits" default="$(find arm_description)/config/$(arg arm_type)/limits.yaml"/>
  <xacro:include filename="$(find arm_description)/urdf/inc/arm_macro.xacro"/>
  <xacro:include filename="$(find common_parts)/urdf/base.xacro"/>
  <link name="world"/>
  <xacro:base parent="world"/>
  <xacro:arm prefix="a_" parent="base" limits_file="$(arg limits)"><origin xyz="0 0 0" rpy="0 0 0"/></xacro:arm>
</robot>""",
    "urdf/inc/arm_macro.xacro": """<robot xmlns:xacro="http://wiki.ros.org/xacro">
  <xacro:macro name="read" params="file">
    <xacro:property name="all" value="${xacro.load_yaml(file)}"/>
    <xacro:property name="limits" value="${all['joint_limits']}" scope="parent"/>
    <xacro:property name="inertias" value="${xacro.load_yaml('$(find arm_description)/config/inertias.yaml')}" scope="parent"/>
  </xacro:macro>
  <xacro:macro name="inertial" params="name inertias:=^">
    <xacro:unless value="${name in inertias}">${xacro.warning('no inertia for ' + name)}</xacro:unless>
    <xacro:if value="${name in inertias}"><xacro:property name="I" value="${inertias[name]}" lazy_eval="false"/>
      <inertial><origin xyz="${I.origin.xyz}" rpy="0 0 0"/><mass value="${I.mass}"/>
        <inertia ixx="${I.inertia.xx}" iyy="${I.inertia.yy}" izz="${I.inertia.zz}" ixy="0" ixz="0" iyz="0"/></inertial></xacro:if>
  </xacro:macro>
  <xacro:macro name="arm" params="prefix parent limits_file *origin">
    <xacro:read file="${limits_file}"/>
    <xacro:macro name="segment" params="name before *place">
      <link name="${prefix}${name}"><xacro:inertial name="${name}"/>
        <visual><geometry><mesh filename="package://arm_description/meshes/${name}.stl"/></geometry></visual></link>
      <joint name="${prefix}${name}_joint" type="revolute"><parent link="${before}"/><child link="${prefix}${name}"/>
        <xacro:insert_block name="place"/><axis xyz="0 0 1"/>
        <limit lower="${limits[name]['min']}" upper="${limits[name]['max']}" effort="${limits[name].effort}"
               velocity="${radians(180)}"/>
      </joint>
    </xacro:macro>
    <xacro:segment name="shoulder" before="${parent}"><xacro:insert_block name="origin"/></xacro:segment>
    <xacro:segment name="elbow" before="${prefix}shoulder"><origin xyz="${'0 0 0.4'.split(' ')[2]} 0 0"/></xacro:segment>
    <ros2_control name="${prefix}control" type="system"><joint name="${prefix}elbow_joint"/></ros2_control>
  </xacro:macro>
</robot>""",
    "config/x1/limits.yaml": "joint_limits:\n  shoulder: {min: !degrees -180, max: !degrees 180, effort: 50}\n"
    "  elbow: {min: -2.5, max: 2.5, effort: 20}\n",
    "config/inertias.yaml": "shoulder:\n  origin: {xyz: 0 0 0.1}\n  mass: 2.5\n  inertia: {xx: 0.1, yy: 0.1, zz: 0.05}\n"
    "elbow:\n  origin: {xyz: 0 0 0}\n  mass: 1.0\n  inertia: {xx: 0.01, yy: 0.01, zz: 0.01}\n",
    "meshes/shoulder.stl": "",
    "meshes/elbow.stl": "",
}
PARTS = {
    "package.xml": MANIFEST.format("common_parts"),
    "urdf/base.xacro": """<robot xmlns:xacro="http://wiki.ros.org/xacro"><xacro:macro name="base" params="parent">
  <link name="base"/>
  <joint name="base_joint" type="fixed"><parent link="${parent}"/><child link="base"/></joint></xacro:macro></robot>""",
}


def write(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    "arm, parts, given",
    [
        ("arm_description", "common_parts", ()),  # packages side by side
        ("arm-main", "parts-1.2", ()),  # folders that are not called as the packages are
        ("ws/src/arms/arm", "ws/src/common/base/parts", ()),  # a workspace
        ("elsewhere/arm", "libraries/deep/parts", ("libraries",)),  # a folder that was given
    ],
)
def test_packages_are_found_by_their_names(arm: str, parts: str, given: tuple[str, ...], tmp_path: Path) -> None:
    write(ARM, tmp_path / arm)
    write(PARTS, tmp_path / parts)
    file = tmp_path / arm / "urdf" / "arm.urdf.xacro"
    robot = checked(describe(file, [tmp_path / folder for folder in given], {"arm_type": "x1"}))
    assert [joint.name for joint in robot.joints] == ["a_elbow_joint", "a_shoulder_joint", "base_joint"]
    assert robot.joints[0].pose.p[0] == 0.4 and robot.joints[1].limits.upper == 3.141592653589793
    assert robot.links[2].inertia is not None and robot.links[2].inertia.mass == 2.5
    assert robot.links[2].visuals[0].mesh == (tmp_path / arm / "meshes/shoulder.stl").resolve()
    # the file says which arms there are when none was chosen
    with pytest.raises(RobotError, match=r"'config' has no 'x' \(did you mean 'x1'\?\)|'config' has no 'x'; there are x1"):
        describe(file, [tmp_path / folder for folder in given], {})


def test_a_package_that_was_copied_out(tmp_path: Path) -> None:
    """Without package.xml, $(find arm_support) in the folder `arm` is this folder; others are not guessed."""
    text = f'{HEAD}<xacro:include filename="$(find arm_support)/urdf/part.xacro"/></robot>'
    write(
        {"urdf/arm.xacro": text, "urdf/part.xacro": f'{HEAD}<link name="a"/></robot>', "meshes/a.stl": ""}, tmp_path / "x" / "arm"
    )
    robot = describe(tmp_path / "x" / "arm" / "urdf" / "arm.xacro", (), {})
    assert [link.name for link in robot.links] == ["a"] and "the robot's own folder 'arm' is taken" in robot.notes[0].what
    write({"urdf/arm.xacro": text.replace("arm_support", "leg_support")}, tmp_path / "x" / "arm")
    with pytest.raises(RobotError, match="the package is in none of the package folders"):
        describe(tmp_path / "x" / "arm" / "urdf" / "arm.xacro", (), {})


def test_urdf_with_xacro_elements_is_read_as_xacro(tmp_path: Path) -> None:
    (tmp_path / "r.urdf").write_text(f'{HEAD}<xacro:property name="n" value="a"/><link name="${{n}}"/></robot>')
    robot = describe(tmp_path / "r.urdf", (), {})
    assert robot.links[0].name == "a" and "is read as xacro" in robot.notes[0].what
