"""What collectives cost by closed forms, under the name that programs use: `ddp_lab.cost`."""

from ddp_lab.collectives.closed_forms import FORMS as FORMS
from ddp_lab.collectives.closed_forms import POWERS_OF_TWO as POWERS_OF_TWO
from ddp_lab.collectives.closed_forms import all_reduce_time as all_reduce_time
from ddp_lab.collectives.closed_forms import collective_time as collective_time
from ddp_lab.collectives.closed_forms import rounds as rounds
