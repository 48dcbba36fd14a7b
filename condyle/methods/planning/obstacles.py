"""Spheres, capsules, boxes and half-spaces; their distances from each other and from a robot's links, with exact derivatives."""

from condyle.methods.planning.closest_points import Closest as Closest
from condyle.methods.planning.link_capsules import LinkCapsule as LinkCapsule
from condyle.methods.planning.link_capsules import enclosing_capsule as enclosing_capsule
from condyle.methods.planning.link_capsules import fit_capsules as fit_capsules
from condyle.methods.planning.obstacle_scene import with_obstacles as with_obstacles
from condyle.methods.planning.obstacle_shapes import Box as Box
from condyle.methods.planning.obstacle_shapes import Capsule as Capsule
from condyle.methods.planning.obstacle_shapes import Plane as Plane
from condyle.methods.planning.obstacle_shapes import Sphere as Sphere
from condyle.methods.planning.obstacle_shapes import distance as distance
from condyle.methods.planning.robot_distances import RobotDistances as RobotDistances
from condyle.methods.planning.robot_distances import robot_distances as robot_distances
