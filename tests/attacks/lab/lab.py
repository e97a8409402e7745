# %% [markdown]
# # The lab that is attacked
#
# Nothing of this file or of `checks.py` may reach a submission: judge-only-5d1f.

# %% tags="setup"
import numpy as np


# %% question="scale" points="4"
def scale(x, factor):
    """Return x times factor, same shape."""
    ### BEGIN SOLUTION
    return x * factor  # judge-only-5d1f
    ### END SOLUTION


# %% question="pass_on" points="4"
def pass_on(comm, x):
    """Send x to the next rank and return what came from the one before."""
    ### BEGIN SOLUTION
    comm.send(x, (comm.rank + 1) % comm.size)
    return comm.recv((comm.rank - 1) % comm.size)
    ### END SOLUTION


# %% question="largest" points="2"
### BEGIN STARTER
# largest = ...
### END STARTER
### BEGIN SOLUTION
largest = np.float64(17.25)
### END SOLUTION
