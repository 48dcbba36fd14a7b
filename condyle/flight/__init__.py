"""Flying: airframes with tilting rotors as multibodies, the air around them, and their controllers, as `cd.flight.airframe`."""

from condyle.flight.air import Air as Air
from condyle.flight.airframe import Airframe as Airframe
from condyle.flight.airframe import RotorData as RotorData
from condyle.flight.airframe import airframe as airframe
from condyle.flight.allocation import Allocation as Allocation
from condyle.flight.battery import Battery as Battery
from condyle.flight.load import Load as Load
from condyle.flight.nmpc import Nmpc as Nmpc
from condyle.flight.references import Circle as Circle
from condyle.flight.references import FigureEight as FigureEight
from condyle.flight.references import Hover as Hover
from condyle.flight.references import MinimumSnap as MinimumSnap
from condyle.flight.references import Steps as Steps
from condyle.flight.references import standard_scenario as standard_scenario
from condyle.flight.single_body import SingleBody as SingleBody
from condyle.flight.single_body import SingleBodyPlant as SingleBodyPlant
from condyle.flight.single_body import single_body as single_body
from condyle.flight.vehicle import Vehicle as Vehicle
from condyle.flight.wind import Dryden as Dryden
from condyle.flight.wind import Gust as Gust
from condyle.flight.wind import Wind as Wind
