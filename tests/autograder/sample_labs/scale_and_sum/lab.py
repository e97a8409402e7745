# %% [markdown]
# # Scale and sum
#
# A lab as small as a lab can be: two functions, one number, and one question for a person.

# %% tags="setup"
import numpy as np

from autograder import lab

q = lab("scale_and_sum")
x = np.arange(6.0).reshape(2, 3)

# %% [markdown]
# ## Scaling
#
# Multiply every element of an array by one factor.


# %% question="scale" points="4" hint1="What is the shape of x?" hint2="Multiply, do not add."
def scale(x, factor):
    """Return x times factor, same shape."""
    ### BEGIN SOLUTION
    return x * factor
    ### END SOLUTION


# %% tags="check"
q.check("scale")

# %% [markdown]
# How many elements will a sum over the rows of `x` have? Write the number down first.

# %% question="predicted_size" points="1" hint1="One for each column."
### BEGIN STARTER
# predicted_size = ...
### END STARTER
### BEGIN SOLUTION
predicted_size = 3
### END SOLUTION

# %% tags="check"
q.check("predicted_size")


# %% question="sum_rows" points="3" hint1="Which axis goes away?"
def sum_rows(x):
    """Return the sum over the rows of x, shape (columns,)."""
    ### BEGIN SOLUTION
    total = np.zeros(x.shape[1], dtype=x.dtype)
    for row in x:
        total += row
    return total
    ### END SOLUTION


# %% tags="check"
q.check("sum_rows")

# %%
print(sum_rows(scale(x, 2.0)))

# %% [markdown] question="why_scale" points="2" manual="true" rubric1="1: Names the unit" rubric2="1: Gives a reason; any will do"
# Why does the loss depend on the scale?
# ### BEGIN SOLUTION
# Because the loss is a sum of squares, and has the square of the unit of `x`.
# ### END SOLUTION
