"""The range of a graph model: which nodes influence which, in theory and as measured."""

from mgnni.range.bounds import contraction as contraction
from mgnni.range.bounds import distance_bound as distance_bound
from mgnni.range.bounds import sound_bound as sound_bound
from mgnni.range.bounds import sound_range as sound_range
from mgnni.range.bounds import symmetric_bound as symmetric_bound
from mgnni.range.chain import chain_influence as chain_influence
from mgnni.range.chain import decay_rate as decay_rate
from mgnni.range.chain import line_influence as line_influence
from mgnni.range.hops import hops_from as hops_from
from mgnni.range.hops import hops_to as hops_to
from mgnni.range.influence import Resolvent as Resolvent
from mgnni.range.influence import linear_influence as linear_influence
from mgnni.range.influence import resolvent_rows as resolvent_rows
from mgnni.range.measure import States as States
from mgnni.range.measure import jacobian_influence as jacobian_influence
from mgnni.range.measure import perturbation_response as perturbation_response
from mgnni.range.printed import printed_bound as printed_bound
from mgnni.range.printed import printed_range as printed_range
from mgnni.range.profile import HopProfile as HopProfile
from mgnni.range.profile import hop_profile as hop_profile
