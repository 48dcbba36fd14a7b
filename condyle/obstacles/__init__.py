"""Spheres, capsules, boxes and half-spaces; their distances from each other and from a robot's links, with exact derivatives."""

from condyle.obstacles.fit import LinkCapsule as LinkCapsule
from condyle.obstacles.fit import enclosing_capsule as enclosing_capsule
from condyle.obstacles.fit import fit_capsules as fit_capsules
from condyle.obstacles.pairs import Closest as Closest
from condyle.obstacles.robot_distances import RobotDistances as RobotDistances
from condyle.obstacles.robot_distances import robot_distances as robot_distances
from condyle.obstacles.scene import with_obstacles as with_obstacles
from condyle.obstacles.shapes import Box as Box
from condyle.obstacles.shapes import Capsule as Capsule
from condyle.obstacles.shapes import Plane as Plane
from condyle.obstacles.shapes import Sphere as Sphere
from condyle.obstacles.shapes import distance as distance
