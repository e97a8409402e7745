"""What collectives cost by closed forms, under the name that programs use: `ddp_lab.cost`."""

from ddp_lab.costs.model import FORMS as FORMS
from ddp_lab.costs.model import POWERS_OF_TWO as POWERS_OF_TWO
from ddp_lab.costs.model import all_reduce_time as all_reduce_time
from ddp_lab.costs.model import collective_time as collective_time
from ddp_lab.costs.model import rounds as rounds
