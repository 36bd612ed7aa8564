"""A mapper that fails."""
import sys

sys.exit('this mapper cannot read its input')
