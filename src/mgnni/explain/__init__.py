"""Why a model predicted something: contributions of nodes, features and scales to one output."""

from mgnni.explain.explanation import Explanation as Explanation
from mgnni.explain.prediction import explain_model as explain_model
from mgnni.explain.prediction import explain_prediction as explain_prediction
