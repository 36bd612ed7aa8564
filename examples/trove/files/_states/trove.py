"""What a Trove instance does with passwords: the states of files/trove.

A password is nowhere but in the pillar of this minion while the run lasts: it is read here, by the
reference that the job names, and is in no rendered file and in no return.
"""


def __virtual__():
    return True


def user_present(name, user, secret, host='%', databases=()):
    """A user of the database server, who has these databases. ``secret``: its password's reference."""
    created = __salt__['trove_mariadb.create_user'](user, _password(secret), host, databases)
    return _result(name, 'created' if created else None)


def password_set(name, user, secret, host='%'):
    """A password that is not the one before."""
    __salt__['trove_mariadb.set_password'](user, _password(secret), host)
    return _result(name, 'password changed')


def root_enabled(name, secret):
    """The user root, with this password."""
    __salt__['trove_mariadb.enable_root'](_password(secret))
    return _result(name, 'enabled')


def _password(reference):
    return __pillar__['saltbridge']['secrets'][reference]['password']


def _result(name, change):
    changes = {} if change is None else {'user': change}
    return {'name': name, 'result': True, 'changes': changes, 'comment': change or 'it was there'}
