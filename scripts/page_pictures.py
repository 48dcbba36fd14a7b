"""Draw the pictures of the pages in docs/, each by the name of its page.

python scripts/page_pictures.py elementary            # writes docs/images/elementary.png
python scripts/page_pictures.py all
python scripts/page_pictures.py notation --to out     # writes out/notation.png
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from time import perf_counter

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"

# the picture, and the file beside this one whose function of that name draws it
DRAWN_IN = {
    "architecture": "pictures_of_ideas",
    "compiler": "pictures_of_numbers",
    "derivatives": "pictures_of_numbers",
    "linalg": "pictures_of_numbers",
    "elementary": "pictures_of_numbers",
    "backends": "pictures_of_numbers",
    "robots": "pictures_of_robots",
    "obstacles": "pictures_of_obstacles",
    "avoidance": "pictures_of_avoidance",
    "conventions": "pictures_of_robots",
    "dynamics": "pictures_of_numbers",
    "notation": "pictures_of_ideas",
    "diffne": "pictures_of_contact",
    "parameters": "pictures_of_contact",
    "faq": "pictures_of_robots",
    "limits": "pictures_of_contact",
    "torch_and_jax": "pictures_of_gradients",
    "closed_loop": "pictures_of_loops",
    "blocks": "pictures_of_loops",
    "environments": "pictures_of_environments",
    "sensors": "pictures_of_sensors",
    "pidog": "pictures_of_pidog",
    "pidog_actions": "pictures_of_pidog",
    "pidog_recovery": "pictures_of_recovery",
    "deploy": "pictures_of_deployment",
    "training": "pictures_of_learning",
    "judging": "pictures_of_learning",
    "imitation": "pictures_of_imitation",
    "flight": "pictures_of_flight",
    "flight_control": "pictures_of_flight_control",
    "birotor_models": "pictures_of_flight",
    "mpc": "pictures_of_mpc",
    "four_limbed_walk": "pictures_of_mpc",
    "predicted_horizon": "pictures_of_mpc",
    "trajectories": "pictures_of_trajectories",
    "motion": "pictures_of_motion",
    "lab": "pictures_of_lab",
    "sweeps": "pictures_of_lab",
    "control_joint": "pictures_of_joint_control",
    "inverse_kinematics": "pictures_of_kinematics",
    "arm_tasks": "pictures_of_kinematics",
    "ros2": "pictures_of_ros2",
    "control_task": "pictures_of_task_control",
    "software_in_the_loop": "pictures_of_connections",
    "identification": "pictures_of_identification",
    "lab_sheets": "pictures_of_lab_sheets",
    "anymal_plans": "pictures_of_trajectories",
    "how_to_controller": "pictures_of_how_tos",
    "how_to_robot": "pictures_of_how_tos",
    "how_to_urdf": "pictures_of_how_tos",
    "how_to_terrain": "pictures_of_how_tos",
    "how_to_parameters": "pictures_of_how_tos",
    "how_to_noise": "pictures_of_how_tos",
    "how_to_gradient": "pictures_of_how_tos",
    "how_to_mpc": "pictures_of_how_tos",
    "from_acados": "pictures_of_how_tos",
    "how_to_rl": "pictures_of_how_tos",
    "how_to_ros2": "pictures_of_how_tos",
    "how_to_record": "pictures_of_how_tos",
    "how_to_threads": "pictures_of_how_tos",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the pictures of the pages in docs/.")
    parser.add_argument("names", nargs="+", choices=[*DRAWN_IN, "all"], metavar="NAME", help=", ".join([*DRAWN_IN, "all"]))
    parser.add_argument("--to", type=Path, default=IMAGES, help="the folder to write to (docs/images)")
    given = parser.parse_args()
    for name in DRAWN_IN if "all" in given.names else given.names:
        start = perf_counter()
        path = given.to / f"{name}.png"
        getattr(import_module(DRAWN_IN[name]), name)(path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB in {perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
