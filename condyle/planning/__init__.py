"""Motion planning: joint paths between obstacles by RRT-Connect, shortened, smoothed and certified."""

from condyle.planning.certify import Clearance as Clearance
from condyle.planning.plan import Plan as Plan
from condyle.planning.plan import plan_motion as plan_motion
from condyle.planning.rrt_connect import rrt_connect as rrt_connect
from condyle.planning.shortcut import shortcut as shortcut
from condyle.planning.smooth import smooth as smooth
