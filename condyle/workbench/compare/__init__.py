"""Other engines beside Condyle: the same robot, world and policy in MuJoCo."""
