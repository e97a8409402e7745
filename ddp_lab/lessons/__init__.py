"""What the labs' notebooks use and do not teach: clocks, lent wires, figures.

Labs import from the modules by name. May import every other folder of ddp_lab; none imports this.
"""
