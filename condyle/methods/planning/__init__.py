"""Motion planning: joint paths between obstacles by RRT-Connect, shortened, smoothed and certified."""

from condyle.methods.planning.certify import Clearance as Clearance
from condyle.methods.planning.plan import Plan as Plan
from condyle.methods.planning.plan import plan_motion as plan_motion
from condyle.methods.planning.rrt_connect import rrt_connect as rrt_connect
from condyle.methods.planning.shortcut import shortcut as shortcut
from condyle.methods.planning.smooth import smooth as smooth
