"""Parameters of a template against the schema of a command or plan. Imports nothing of Heat."""

import re

try:
    import jsonschema
except ImportError:
    jsonschema = None


def parameter_problems(schema, given, unresolved):
    """Reasons why the bridge would reject the parameters; empty: none that is known beforehand.

    ``unresolved``: names whose values are known only when other resources exist. Without the
    package ``jsonschema`` only names are checked.
    """
    known = schema.get('properties', {})
    names = set(given) | set(unresolved)
    problems = ['%s: is required' % name for name in schema.get('required', [])
                if name not in names]
    if not schema.get('additionalProperties'):
        problems += ['%s: there is no such parameter' % name
                     for name in sorted(names) if name not in known]
    for name in sorted(given):
        if name in known and jsonschema is not None:
            problems += _value_problems(name, known[name], given[name])
    return problems


def _value_problems(name, schema, value):
    try:
        errors = list(jsonschema.Draft7Validator(schema).iter_errors(value))
    except (re.error, jsonschema.SchemaError):
        # A pattern of another dialect: the bridge checks it when the command runs.
        return []
    # Never the value: it may be a password.
    return ['%s: does not fit its schema (%s)' % (name, error.validator) for error in errors[:1]]


def group_problems(groups, given):
    """The same for the groups of a plan."""
    expected = {name for name, group in groups.items() if 'from' not in group}
    return (['groups: %s: is required' % name for name in sorted(expected - set(given))]
            + ['groups: %s: there is no such group' % name
               for name in sorted(set(given) - expected)])
