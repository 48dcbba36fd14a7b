"""Flying: airframes with tilting rotors as multibodies, the air around them, and their controllers, as `cd.flight.airframe`."""

from condyle.flight.airframe import Airframe as Airframe
from condyle.flight.airframe import RotorData as RotorData
from condyle.flight.airframe import airframe as airframe
