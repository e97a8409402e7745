"""Wrong answers that the checks must catch, each with a message of its own."""


# %% wrong="adds_instead" question="scale" check="every_element_is_multiplied" says="first element"
def scale(x, factor):
    return x + factor


# %% wrong="ignores_the_sign" question="scale" check="a_negative_factor_changes_the_sign" says="negative"
def scale(x, factor):
    return x * abs(factor)


# %% wrong="counts_rows" question="predicted_size" check="one_element_for_each_column" says="Which of"
predicted_size = 2


# %% wrong="sums_columns" question="sum_rows" check="rows_are_added" says="each column"
def sum_rows(x):
    return x.sum(axis=1)
