"""Parts of a closed loop that are supplied: actuators, sensors, filters and policies, as `cd.blocks.IMU`."""

from condyle.blocks.delay import Delay as Delay
from condyle.blocks.filters import Butterworth as Butterworth
from condyle.blocks.filters import Derivative as Derivative
from condyle.blocks.filters import LowPass as LowPass
from condyle.blocks.filters import MovingAverage as MovingAverage
from condyle.blocks.limiters import Backlash as Backlash
from condyle.blocks.limiters import DeadBand as DeadBand
from condyle.blocks.limiters import Quantizer as Quantizer
from condyle.blocks.limiters import RateLimit as RateLimit
from condyle.blocks.limiters import Saturation as Saturation
from condyle.blocks.limiters import Slew as Slew
from condyle.blocks.pid import PID as PID
from condyle.blocks.pid import Integrator as Integrator
