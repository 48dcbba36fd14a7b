"""Malformed and hostile files: each gives a clear RobotError or a note, fast, and never anything else; no file is written."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from condyle.errors import RobotError
from condyle.robot.check import checked
from condyle.robot.description import Description
from condyle.robot.report import matters
from condyle.robot.urdf import read_urdf
from condyle.robot.xacro import read_xacro

SECONDS = 10.0  # of one processor, for one file, at most: a file that takes so long has no bound (they take a tenth of one)
SENTENCE = re.compile(r"(?s)(\S*bad\.(urdf|xacro):\d+|\S*\.xacro:\d+): .{8,}")

BODY = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
JOINT = '<joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/>LIMIT</joint>'
LIMIT = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
GOOD = f'<robot name="r"><link name="a"/><link name="b">{BODY}</link>{JOINT.replace("LIMIT", LIMIT)}</robot>'
HEAD = '<robot name="r" xmlns:xacro="http://ros.org/wiki/xacro"><link name="a"/>'


def swap(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def more(text: str) -> str:
    """The good robot with something added."""
    return GOOD.replace("</robot>", text + "</robot>")


def mesh(name: str) -> str:
    return swap('<link name="a"/>', f'<link name="a"><visual><geometry><mesh filename="{name}"/></geometry></visual></link>')


def chain(count: int, last: str = "") -> str:
    links = "".join(f'<link name="l{i}">{BODY}</link>' for i in range(count))
    joints = "".join(
        f'<joint name="j{i}" type="continuous"><parent link="l{i - 1}"/><child link="l{i}"/></joint>' for i in range(1, count)
    )
    return f'<robot name="r">{links}{joints}{last}</robot>'


LAUGHS = "".join(f'<!ENTITY a{i} "' + f"&a{i - 1};" * 10 + '">' for i in range(1, 10))
RING = '<joint name="k" type="fixed"><parent link="b"/><child link="a"/></joint>'

URDF: dict[str, str | bytes] = {
    # not XML, or not the XML we read
    "empty": "",
    "blank": " \n\n ",
    "text": "hello world",
    "binary": bytes(range(256)),
    "zip": b"PK\x03\x04" + bytes(100),
    "nul": GOOD.replace("<link", "\0<link", 1),
    "nul in name": swap('"a"', '"a\0"'),
    "latin-1": swap('"r"', '"r\u00e4"').encode("latin-1"),
    "says latin-1": '<?xml version="1.0" encoding="latin-1"?>' + swap('"r"', '"r\u00e4"'),
    "utf-16": GOOD.encode("utf-16"),
    "utf-16 without mark": GOOD.encode("utf-16-le"),
    "utf-32": GOOD.encode("utf-32"),
    "lone surrogate": swap('"r"', '"\ud800"'),
    "control character": swap('"r"', '"\x01"'),
    "two roots elements": GOOD + GOOD,
    "not a robot": "<mujoco/>",
    "html": "<!DOCTYPE html><html><body/></html>",
    "unclosed": "<robot name='r'><link name='a'>",
    "crossed": "<robot name='r'><link name='a'></robot></link>",
    "no quotes": "<robot name=r/>",
    "attribute twice": '<robot name="r" name="s"/>',
    "bad prefix": "<robot name='r'><1link/></robot>",
    "dtd": "<!DOCTYPE robot SYSTEM 'robot.dtd'>" + GOOD,
    "billion laughs": f'<!DOCTYPE r [<!ENTITY a0 "ha">{LAUGHS}]><robot name="&a9;"/>',
    "external entity": '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="r">&x;</robot>',
    "parameter entity": '<!DOCTYPE r [<!ENTITY % x SYSTEM "http://localhost/x">%x;]><robot name="r"/>',
    "undefined entity": '<robot name="r">&x;</robot>',
    "instruction": "<?php system('ls') ?>" + GOOD,
    "huge attribute": swap('"r"', '"' + "r" * 1_000_000 + '"'),
    "huge tag": f"<robot name='r'><{'x' * 1_000_000}/></robot>",
    "huge text": more("x" * 1_000_000),
    "huge file": " " * (17 * 2**20) + GOOD,
    "many attributes": "<robot " + " ".join(f"a{i}='1'" for i in range(1000)) + "/>",
    "deep": "<robot name='r'>" + "<x>" * 100_000,
    "deep and closed": "<robot name='r'>" + "<x>" * 100_000 + "</x>" * 100_000 + "</robot>",
    "many elements": "<robot name='r'>" + "<x/>" * 500_000 + "</robot>",
    "many comments": GOOD + "<!-- -->" * 100_000 + "<x>",
    # what is missing
    "no links": "<robot name='r'/>",
    "no link name": swap('<link name="a"/>', "<link/>"),
    "empty link name": swap('<link name="a"/>', '<link name=""/>'),
    "blank link name": swap('<link name="a"/>', '<link name=" "/>'),
    "no joint name": swap('<joint name="j"', "<joint"),
    "no type": swap(' type="revolute"', ""),
    "unknown type": swap("revolute", "rotational"),
    "no parent": swap('<parent link="a"/>', ""),
    "no child": swap('<child link="b"/>', ""),
    "no child link": swap('<child link="b"/>', "<child/>"),
    "parent twice": swap('<parent link="a"/>', '<parent link="a"/><parent link="a"/>'),
    "no mass": swap('<mass value="1"/>', ""),
    "no mass value": swap('<mass value="1"/>', "<mass/>"),
    "no inertia": swap('<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>', ""),
    "no izz": swap(' izz="1"', ""),
    "inertial twice": swap(BODY, BODY + BODY),
    "two shapes": swap(BODY, BODY + "<visual><geometry><sphere radius='1'/><box size='1 1 1'/></geometry></visual>"),
    "no radius": swap(BODY, BODY + "<collision><geometry><sphere/></geometry></collision>"),
    "negative size": swap(BODY, BODY + "<collision><geometry><box size='1 -1 1'/></geometry></collision>"),
    "flat mesh": swap(BODY, BODY + "<visual><geometry><mesh filename='m' scale='1 1 0'/></geometry></visual>"),
    "no mesh name": swap(BODY, BODY + "<visual><geometry><mesh/></geometry></visual>"),
    "mimic without joint": swap(LIMIT, LIMIT + "<mimic/>"),
    # numbers
    "comma": swap('mass value="1"', 'mass value="1,5"'),
    "nan": swap('mass value="1"', 'mass value="nan"'),
    "inf": swap('mass value="1"', 'mass value="inf"'),
    "overflow": swap('mass value="1"', 'mass value="1e999"'),
    "hex": swap('mass value="1"', 'mass value="0x10"'),
    "underscore": swap('mass value="1"', 'mass value="1_000"'),
    "unit": swap('mass value="1"', 'mass value="1kg"'),
    "degrees": swap('upper="1"', 'upper="90deg"'),
    "expression": swap('mass value="1"', 'mass value="1+1"'),
    "xacro": swap('mass value="1"', 'mass value="${m}"'),
    "arabic digits": swap('mass value="1"', 'mass value="\u0661"'),
    "long number": swap('mass value="1"', 'mass value="' + "9" * 60_000 + '"'),
    "long broken number": swap('mass value="1"', 'mass value="' + "9" * 60_000 + 'x"'),
    "empty number": swap('mass value="1"', 'mass value=""'),
    "two numbers": swap('xyz="0 0 1"', 'xyz="0 1"'),
    "four numbers": swap('xyz="0 0 1"', 'xyz="0 0 1 0"'),
    "commas": swap('xyz="0 0 1"', 'xyz="0, 0, 1"'),
    "semicolons": swap('xyz="0 0 1"', 'xyz="0;0;1"'),
    "no axis": swap('xyz="0 0 1"', 'xyz="0 0 0"'),
    "infinite axis": swap('xyz="0 0 1"', 'xyz="1e308 1e308 1e308"'),
    "color": more("<material name='m'><color rgba='1 0 0'/></material>"),
    # the graph
    "link twice": more('<link name="a"/>'),
    "joint twice": more('<link name="c"/>' + JOINT.replace("LIMIT", LIMIT).replace('"b"', '"c"')),
    "two roots": more('<link name="c"/>'),
    "cycle": more(RING),
    "long cycle": chain(2000, '<joint name="k" type="fixed"><parent link="l1999"/><child link="l0"/></joint>'),
    "self": more('<link name="c"/><joint name="k" type="fixed"><parent link="c"/><child link="c"/></joint>'),
    "two parents": more('<joint name="k" type="fixed"><parent link="a"/><child link="b"/></joint>'),
    "no such parent": swap('<parent link="a"/>', '<parent link="aa"/>'),
    "no such child": swap('<child link="b"/>', '<child link="../b"/>'),
    "too many links": "<robot name='r'>" + "".join(f"<link name='l{i}'/>" for i in range(25_000)) + "</robot>",
    "all joints broken": chain(3000).replace("<parent link=", "<parent lnk="),
    "all parents wrong": re.sub(r'<parent link="l', '<parent link="m', chain(3000)),
    "long name": GOOD.replace('"a"', '"' + "a" * 10_000 + '"'),
    "name with newline": GOOD.replace('"a"', '"a&#10;b"'),
    "mimic nobody": swap(LIMIT, LIMIT + '<mimic joint="nosuch"/>'),
    "mimic itself": swap(LIMIT, LIMIT + '<mimic joint="j"/>'),
    "mimic number": swap(LIMIT, LIMIT + '<mimic joint="j" multiplier="a"/>'),
    # bodies and limits
    "negative mass": swap('mass value="1"', 'mass value="-1"'),
    "negative inertia": swap('ixx="1"', 'ixx="-1"'),
    "huge product": swap('ixy="0"', 'ixy="1000"'),
    "impossible inertia": swap('ixx="1"', 'ixx="100"'),
    "nothing to move": swap(BODY, ""),
    "limits reversed": swap('lower="-1" upper="1"', 'lower="1" upper="-1"'),
    "negative effort": swap('effort="1"', 'effort="-1"'),
    "negative velocity": swap('velocity="1"', 'velocity="-1"'),
    "negative damping": swap(LIMIT, LIMIT + '<dynamics damping="-1"/>'),
    "axis not unit": swap('xyz="0 0 1"', 'xyz="0 0 3"'),
    "no limit": swap(LIMIT, ""),
    # paths
    "traversal": mesh("../../../../etc/passwd"),
    "package traversal": mesh("package://a/../../../../../etc/passwd"),
    "package dots": mesh("package://../etc/passwd"),
    "symlink": mesh("escape.stl"),
    "web": mesh("http://localhost/mesh.stl"),
    "strange scheme": mesh("javascript://x"),
    "long path": mesh("a/" * 5000),
    "percent": mesh("a%00"),
    "device": mesh("file:///dev/zero"),
    "root": mesh("/etc/passwd"),
}


def x(body: str) -> str:
    return f"{HEAD}{body}</robot>"


def expression(text: str) -> str:
    """A good robot with an expression where nothing else can be wrong."""
    return x(f'<gazebo value="${{{text}}}"/>')


YAML: dict[str, bytes] = {
    "laughs": b"a0: &a0 [x]\n"
    + b"".join(b"a%d: &a%d [%s]\n" % (i, i, b",".join([b"*a%d" % (i - 1)] * 10)) for i in range(1, 10)),
    "itself": b"a: &a [*a]",
    "merge laughs": b"a: &a {" + b",".join(b"k%d: 1" % i for i in range(200)) + b"}\nb: [" + b"{<<: *a}," * 200 + b"]",
    "merge a list": b"a: {<<: [1]}",
    "no alias": b"a: *b",
    "deep": b"[" * 50_000,
    "deep dicts": b"{a: " * 20_000,
    "deep dashes": b"- " * 50_000,
    "deep keys": b"? " * 50_000,
    "deep indents": b"".join(b" " * i + b"a:\n" for i in range(300)),
    "object": b"!!python/object/apply:os.system ['touch hacked']",
    "name": b"a: !!python/name:os.system",
    "unknown tag": b"a: !danger 1",
    "set": b"!!set {a}",
    "binary": b"a: !!binary aGVsbG8=",
    "huge": b"a" * 200_000,
    "long": b"[" + b"1," * 40_000 + b"]",
    "long number": b"a: " + b"1" * 100_000,
    "long hexadecimal": b"a: 0x" + b"f" * 100_000,
    "base sixty": b"a: " + b":".join([b"1"] * 40_000),
    "unit": b"a: !degrees __import__('os')",
    "unit power": b"a: !degrees 9**9**9",
    "two documents": b"--- a\n--- b",
    "broken": b"a: b: c",
    "bytes": bytes(range(256)),
    "list as key": b"? [1]\n: 2",
    "not a number": b"!!int x",
}

DOUBLE = '<xacro:macro name="m" params=""><xacro:m/><xacro:m/></xacro:macro><xacro:m/>'
XACRO: dict[str, str] = {
    "import": expression("__import__('os').system('touch hacked')"),
    "import hidden": expression("str(__builtins__)"),
    "dunder walk": expression("().__class__.__bases__[0].__subclasses__()"),
    "dunder of string": expression("''.__class__"),
    "format": expression("'{0.__class__}'.format(1)"),
    "format attribute": expression("'{0.real}'.format(1)"),
    "format index": expression("'{0[0]}'.format([1])"),
    "format class": expression("'{x.__class__.__mro__}'.format(x='')"),
    "format width": expression("'{:9999999999}'.format(1)"),
    "format precision": expression("'{:.99999f}'.format(1.0)"),
    "format nested": expression("'{:{}}'.format(1, 999999999)"),
    "format many": expression("('{0}' * 900).format('a' * 60000)"),
    "format missing": expression("'{} {}'.format(1)"),
    "format map": expression("'{a}'.format_map(dict(a=1))"),
    "percent star": expression("'%*d' % (999999999, 1)"),
    "percent precision": expression("'%.99999f' % 1.0"),
    "percent many": expression("('%(a)s' * 900) % dict(a='a' * 60000)"),
    "percent object": expression("'%s' % len"),
    "percent bomb": expression("'%999999999d' % 1"),
    "lambda": expression("(lambda: 1)()"),
    "no such method": expression("'a'.encode()"),
    "method of a class": expression("str.join(',', ['a'])"),
    "method of a function": expression("len.__call__([])"),
    "method as a value": expression("'a'.upper"),
    "attribute of a list": expression("[1].append"),
    "mutation": expression("[1].append(2)"),
    "mutation of a dict": expression("dict(a=1).update(b=2)"),
    "dunder of a dict": expression("xacro.dotify(dict(a=1)).__class__"),
    "dunder keyword": expression("dict(__class__=1).__class__"),
    "function as text": expression("len"),
    "namespace as text": expression("math"),
    "set as text": expression("python.set([1])"),
    "map of a string": expression("map('len', [1])"),
    "call a number": expression("5(1)"),
    "call a string": expression("'len'([])"),
    "type": expression("python.type(1)"),
    "vars": expression("python.vars()"),
    "isinstance": expression("python.isinstance(1, 5).x"),
    "translate": expression("'a'.translate({97: 'b' * 60000})"),
    "lambda in map": expression("map(lambda i: i, [1])"),
    "comprehension bomb": expression("[[[0 for i in range(60000)] for j in range(60000)] for k in range(60000)]"),
    "loops": expression("[i for i in range(60000) for j in range(60000) for k in range(60000)]"),
    "empty loops": expression("[i for i in range(60000) for j in range(60000) if False]"),
    "comprehension of strings": expression("['a' * 60000 for i in range(60000)]"),
    "dict comprehension": expression("{i: 'a' * 60000 for i in range(60000)}"),
    "generator bomb": expression("max(i for i in range(60000) for j in range(60000))"),
    "loop over a number": expression("[i for i in 5]"),
    "loop to an attribute": expression("[1 for math.pi in [1]]"),
    "unpack": expression("[a for a, b in [1, 2]]"),
    "async": expression("[i async for i in [1]]"),
    "huge range": expression("range(10**12)"),
    "huge range of huge numbers": expression("range(0, 2**127, 2)"),
    "float range": expression("range(1.5)"),
    "huge split": expression("('a,' * 32000).split(',') * 32000"),
    "huge join": expression("('x' * 60000).join(['a'] * 60000)"),
    "huge replace": expression("('a' * 60000).replace('a', 'b' * 60000)"),
    "replace nothing": expression("('a' * 60000).replace('', 'b' * 60000)"),
    "huge pad": expression("'a'.ljust(10**9)"),
    "huge zfill": expression("'a'.zfill(10**18)"),
    "huge center": expression("'a'.center(2**100)"),
    "doubling": expression("[s + s for s in [t + t for t in ['a' * 40000]]]"),
    "sum of lists": expression("python.sum([[1], [2]], [])"),
    "sum of strings": expression("python.sum(['a'], 'b')"),
    "product": expression("math.prod(range(1, 60000))"),
    "slice of a dict": expression("dict(a=1)[0:1]"),
    "slice with text": expression("[1]['a':]"),
    "spread": expression("max(*([[0] * 60000] * 60000))"),
    "spread of a dict": expression("dict(**[1])"),
    "walrus": expression("(y := 5)"),
    "f-string": expression("f'{1}'"),
    "open": expression("open('/etc/passwd')"),
    "eval": expression("eval('1')"),
    "exec": expression("exec('x=1')"),
    "getattr": expression("getattr(1, 'real')"),
    "load_yaml": expression("xacro.load_yaml('a.yaml')"),
    "yaml traversal": expression("xacro.load_yaml('../secret.yaml')"),
    "yaml absolute": expression("load_yaml('/etc/passwd')"),
    "yaml device": expression("load_yaml('/dev/zero')"),
    "yaml link": expression("load_yaml('escape.yaml')"),
    "yaml web": expression("load_yaml('http://localhost/a.yaml')"),
    "yaml number": expression("load_yaml(5)"),
    "yaml folder": expression("load_yaml('.')"),
    **{f"yaml {what}": expression(f"xacro.load_yaml('yaml/{what}.yaml')") for what in YAML},
    "yaml of nothing": expression("xacro.load_yaml('yaml/good.yaml').nosuch"),
    "yaml dunder": expression("xacro.load_yaml('yaml/good.yaml').__class__"),
    "fatal": expression("xacro.fatal('no')"),
    "no such function": expression("xacro.system('ls')"),
    "absolute name": expression("xacro.load_yaml(xacro.abs_filename('../secret.yaml'))"),
    "math escape": expression("math.__loader__"),
    "statement": expression("import os"),
    "glued": expression("1if 2 else 3"),
    "power": expression("9**9**9"),
    "power of powers": expression("(2**100)**100"),
    "float power": expression("10.0**400"),
    "negative root": expression("(-8)**0.5"),
    "shift": expression("1 &lt;&lt; 99999999"),
    "string bomb": expression("'a' * 999999999"),
    "list bomb": expression("[0] * 999999999"),
    "round bomb": expression("round(5, -999999999)"),
    "int bomb": expression("int('" + "9" * 1500 + "')"),
    "factorial": expression("factorial(100000)"),
    "zero division": expression("1/0"),
    "modulo zero": expression("1 % 0"),
    "nan": expression("float('nan')"),
    "sqrt": expression("sqrt(-1)"),
    "bytes": expression("b'a'"),
    "complex": expression("1j"),
    "ellipsis": expression("..."),
    "backslash": expression("'\\x41'"),
    "unhashable": expression("{[1]: 2}"),
    "index": expression("[1][5]"),
    "key": expression("{'a': 1}['b']"),
    "mixed": expression("1 + 'a'"),
    "parentheses": expression("(" * 900 + "1" + ")" * 900),
    "minus": expression("-" * 1900 + "1"),
    "long": expression("+".join(["1"] * 3000)),
    "nots": expression("not " * 400 + "1"),
    "unknown name": expression("nosuch"),
    "unknown function": expression("sine(1)"),
    "empty expression": expression(""),
    "unclosed expression": x('<link name="${1"/>'),
    "unclosed substitution": x('<link name="$(arg a"/>'),
    "circular": x('<xacro:property name="p" value="${q}"/><xacro:property name="q" value="${p}"/><link name="${p}"/>'),
    "self": x('<xacro:property name="p" value="${p}1"/><link name="${p}"/>'),
    "laughs": x('<xacro:property name="p0" value="ha"/>'
                + "".join(f'<xacro:property name="p{i}" value="' + f"${{p{i - 1}}}" * 10 + '"/>' for i in range(1, 10))
                + '<link name="${p9}"/>'),
    "list laughs": x("<xacro:property name='p0' value='${[1]}'/>"
                     + "".join(f"<xacro:property name='p{i}' value='${{[" + f"p{i - 1}, " * 10 + "]}'/>" for i in range(1, 10))
                     + "<link name='${p9}'/>"),
    "deep lists": x("<xacro:property name='p' value='${[1]}'/>"
                    + "<xacro:property name='p' value='${[p]}' lazy_eval='false'/>" * 3000 + "<link name='${p}'/>"),
    "property chain": x("".join(f'<xacro:property name="p{i}" value="${{p{i + 1}}}"/>' for i in range(2000))
                        + '<link name="${p0}"/>'),
    "env": x('<gazebo name="$(env HOME)"/>'),
    "working folder": x('<link name="$(cwd)"/>'),
    "env in eval": x("<gazebo v=\"$(eval env('HOME'))\"/>"),
    "find in eval": x("<gazebo v=\"$(eval find('../..'))\"/>"),
    "dunder in eval": x("<gazebo v=\"$(eval arg.__class__)\"/>"),
    "namespace dunder": x('<xacro:include filename="itself.xacro" ns="__builtins__"/>'),
    "namespace number": x('<xacro:include filename="itself.xacro" ns="1a"/>'),
    "namespace of nothing": x("<xacro:nosuch.macro/>"),
    "macro with a dot": x('<xacro:macro name="a.b" params=""/>'),
    "wildcards outside": x('<xacro:include filename="../*.stl"/>'),
    "wildcards in folders": x('<xacro:include filename="*/a.xacro"/>'),
    "wildcards of links": x('<xacro:include filename="esc*.xacro"/>'),
    "unknown substitution": x('<link name="$(shell ls)"/>'),
    "no such argument": x('<link name="$(arg nosuch)"/>'),
    "argument without default": x('<xacro:arg name="n"/>'),
    "eval substitution": x("<link name=\"$(eval __import__('os'))\"/>"),
    "eval argument": x("<link name=\"$(eval arg('x'))\"/>"),
    "find": x('<link name="$(find nosuch)"/>'),
    "find dots": x('<link name="$(find ..)"/>'),
    "recursion": x('<xacro:macro name="m" params=""><xacro:m/></xacro:macro><xacro:m/>'),
    "mutual recursion": x('<xacro:macro name="m" params=""><xacro:n/></xacro:macro>'
                          '<xacro:macro name="n" params=""><xacro:m/></xacro:macro><xacro:m/>'),
    "double recursion": x(DOUBLE),
    "growing recursion": x('<xacro:macro name="m" params="i"><link name="l${i}"/><xacro:m i="${i+1}"/></xacro:macro>'
                           '<xacro:m i="0"/>'),
    "bounded explosion": x('<xacro:macro name="m" params="i"><y/><xacro:if value="${i}">' + '<xacro:m i="${i-1}"/>' * 10
                           + '</xacro:if></xacro:macro><xacro:m i="20"/>'),
    "empty explosion": x('<xacro:macro name="m" params="i"><xacro:if value="${i}">' + '<xacro:m i="${i-1}"/>' * 10
                         + '</xacro:if></xacro:macro><xacro:m i="20"/>'),
    "block laughs": x('<xacro:macro name="m" params="i **b"><xacro:if value="${i}"><xacro:m i="${i-1}"><b>'
                      '<xacro:insert_block name="b"/><xacro:insert_block name="b"/></b></xacro:m></xacro:if></xacro:macro>'
                      '<xacro:m i="60"><b><y/></b></xacro:m>'),
    "deep blocks": x('<xacro:macro name="m" params="*b"><xacro:m><y><xacro:insert_block name="b"/></y></xacro:m></xacro:macro>'
                     "<xacro:m><y/></xacro:m>"),
    "block in itself": x('<xacro:property name="b"><xacro:insert_block name="b"/></xacro:property>'
                         '<xacro:insert_block name="b"/>'),
    "no such block": x('<xacro:insert_block name="b"/>'),
    "no such macro": x('<xacro:nosuch a="1"/>'),
    "missing parameter": x('<xacro:macro name="m" params="a"/><xacro:m/>'),
    "extra parameter": x('<xacro:macro name="m" params="a"/><xacro:m a="1" bb="2"/>'),
    "missing block": x('<xacro:macro name="m" params="*a"/><xacro:m/>'),
    "extra block": x('<xacro:macro name="m" params=""/><xacro:m><y/></xacro:m>'),
    "bad parameters": x("<xacro:macro name='m' params=\"a:='b\"/><xacro:m/>"),
    "slow parameters": x("<xacro:macro name='m' params='" + "a:=${x}" * 3000 + " \"'/>"),
    "bad macro name": x('<xacro:macro name="if" params=""/>'),
    "bad property name": x('<xacro:property name="1a" value="2"/>'),
    "dunder property": x('<xacro:property name="__builtins__" value="2"/>'),
    "property without name": x('<xacro:property value="2"/>'),
    "value and default": x('<xacro:property name="a" value="2" default="3"/>'),
    "bad scope": x('<xacro:property name="a" value="2" scope="universe"/>'),
    "bad condition": x('<xacro:if value="maybe"/>'),
    "no condition": x("<xacro:if/>"),
    "element without name": x("<xacro:element/>"),
    "element becomes xacro": x('<xacro:element xacro:name="xacro:m"/>'),
    "include itself": x('<xacro:include filename="itself.xacro"/>'),
    "include each other": x('<xacro:include filename="ping.xacro"/>'),
    "include nothing": x('<xacro:include filename="nosuch.xacro"/>'),
    "include without name": x("<xacro:include/>"),
    "include traversal": x('<xacro:include filename="../../../../etc/passwd"/>'),
    "include symlink": x('<xacro:include filename="escape.xacro"/>'),
    "include absolute": x('<xacro:include filename="/etc/passwd"/>'),
    "include web": x('<xacro:include filename="http://localhost/x.xacro"/>'),
    "include folder": x('<xacro:include filename="."/>'),
    "include device": x('<xacro:include filename="/dev/zero"/>'),
    "include binary": x('<xacro:include filename="binary.xacro"/>'),
    "include laughs": x('<xacro:include filename="laughs.xacro"/>'),
    "include namespace": x('<xacro:include filename="itself.xacro" ns="n"/>'),
    "name from the file": x("<link name=\"a'); import os; os.system('touch hacked\"/>"),
    "mesh traversal": x("<link name='b'><visual><geometry>"
                        "<mesh filename='${\"../../etc/\" + \"passwd\"}'/></geometry></visual></link>"),
}  # fmt: skip

CUTS = [f"<?xml version='1.0'?>{GOOD}"[:n] for n in range(0, len(GOOD), 7)]

# they load, with a note that says what is odd
NOTED = {
    "no mass", "no inertia", "inertial twice", "color", "impossible inertia", "nothing to move", "axis not unit", "no limit",
    "infinite axis", "device", "root", "percent",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files to trip over, and one outside of it."""
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "secret.stl").write_text("secret")
    (own / "escape.stl").symlink_to(tmp_path / "secret.stl")
    (own / "escape.xacro").symlink_to(tmp_path / "secret.stl")
    (own / "itself.xacro").write_text(x('<xacro:include filename="itself.xacro"/>'))
    (own / "ping.xacro").write_text(x('<xacro:include filename="pong.xacro"/>'))
    (own / "pong.xacro").write_text(x('<xacro:include filename="ping.xacro"/><xacro:include filename="ping.xacro"/>'))
    (tmp_path / "secret.yaml").write_text("a: 1")
    (own / "escape.yaml").symlink_to(tmp_path / "secret.yaml")
    (own / "yaml").mkdir()
    (own / "yaml" / "good.yaml").write_text("a: 1")
    for what, content in YAML.items():
        (own / "yaml" / f"{what}.yaml").write_bytes(content)
    (own / "binary.xacro").write_bytes(bytes(range(256)))
    laughs = URDF["billion laughs"]
    assert isinstance(laughs, str)
    (own / "laughs.xacro").write_text(laughs)
    return own


def tree(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*"))


def judge(load: Callable[[], Description], folder: Path, noted: bool) -> None:
    """Loading raises one clear RobotError, or tells of a repair, in time and without a trace."""
    before, here, start = tree(folder.parent), tree(Path.cwd() / "tests" / "robot"), time.process_time()
    try:
        robot = checked(load())
    except RobotError as error:
        assert not noted, error
        assert error.problems
        for problem in error.problems[:-1] or error.problems:
            assert SENTENCE.fullmatch(problem), problem
            assert len(problem) < 600 and problem.isprintable(), problem
    else:
        assert noted, "accepted in silence"
        assert any(matters(note) or "not found in the allowed folders" in note.what for note in robot.notes)
    assert time.process_time() - start < SECONDS
    assert tree(folder.parent) == before and tree(Path.cwd() / "tests" / "robot") == here


@pytest.mark.parametrize("what", URDF)
def test_hostile_urdf(what: str, folder: Path) -> None:
    judge(lambda: read_urdf(URDF[what], str(folder / "bad.urdf")), folder, what in NOTED)


@pytest.mark.parametrize("what", XACRO)
def test_hostile_xacro(what: str, folder: Path) -> None:
    judge(lambda: read_xacro(XACRO[what], str(folder / "bad.xacro")), folder, what in NOTED)


@pytest.mark.parametrize("text", CUTS, ids=len)
def test_truncated(text: str, folder: Path) -> None:
    judge(lambda: read_urdf(text, str(folder / "bad.urdf")), folder, False)


def test_the_good_one_is_good(folder: Path) -> None:
    assert checked(read_urdf(GOOD, str(folder / "good.urdf"))).notes == ()
    assert checked(read_xacro(GOOD, str(folder / "good.xacro"))).notes == ()


def test_five_thousand_links_load(folder: Path) -> None:
    assert len(checked(read_urdf(chain(5000), str(folder / "long.urdf"))).links) == 5000


def test_the_corpus_is_large() -> None:
    assert len(URDF) + len(XACRO) + len(CUTS) >= 200
