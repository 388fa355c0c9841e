"""Measurements that print tables: the speed of the simulator and of training, each beside what it is compared with."""
