"""Hosts on one machine: network namespaces with names and addresses of their own."""

from ddp_lab.launch.hosts.hosts import SWITCH as SWITCH
from ddp_lab.launch.hosts.hosts import Hosts as Hosts
