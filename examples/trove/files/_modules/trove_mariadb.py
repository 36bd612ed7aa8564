"""Users, databases and rights of the MariaDB server of a Trove instance, by trove_server.

Names are quoted, never checked: which names there may be is decided by the schemas of the catalog.
No function returns a password or writes one into SQL: the server is given its hash.
"""

import hashlib

_HIDDEN_USERS = ('root', 'mysql', 'mariadb.sys', '')
_HIDDEN_DATABASES = ('information_schema', 'mysql', 'performance_schema', 'sys')
_DEFAULT_LIMIT = 20


def __virtual__():
    return True


# Users.

def create_user(name, password, host='%', databases=()):
    """Makes a user and gives it databases. One that is there keeps its password."""
    before = _exists(name, host)
    if not before:
        _execute('CREATE USER IF NOT EXISTS %s IDENTIFIED BY PASSWORD %s'
                 % (_user(name, host), _hash(password)))
    grant_access(name, host, databases)
    return not before


def delete_user(name, host='%'):
    """Removes a user. Gives whether it was there."""
    before = _exists(name, host)
    _execute('DROP USER IF EXISTS %s' % _user(name, host))
    return before


def set_password(name, password, host='%'):
    """Changes the password of a user."""
    _require(name, host)
    _execute('ALTER USER %s IDENTIFIED BY PASSWORD %s' % (_user(name, host), _hash(password)))


def update_attributes(name, host='%', new_name=None, new_host=None):
    """Renames a user, whose rights stay."""
    _require(name, host)
    wanted = (new_name or name, new_host or host)
    if wanted != (name, host):
        _execute('RENAME USER %s TO %s' % (_user(name, host), _user(*wanted)))
    return get_user(*wanted)


def get_user(name, host='%'):
    """A user with its databases; None where there is none."""
    if not _exists(name, host):
        return None
    return {'name': name, 'host': host, 'databases': list_access(name, host)}


def list_users(limit=None, marker=None, include_marker=False):
    """A page of users, by name and host: a map with ``users`` and ``next_marker``."""
    rows = _execute('SELECT JSON_ARRAY(User, Host) FROM mysql.user WHERE User NOT IN (%s)'
                    % _texts(_HIDDEN_USERS))
    page, following = _page([tuple(it) for it in rows], _identity, limit, marker, include_marker)
    users = [{'name': name, 'host': host, 'databases': list_access(name, host)}
             for name, host in page]
    return {'users': users, 'next_marker': following}


def grant_access(name, host='%', databases=()):
    """Gives a user all rights in databases."""
    _require(name, host)
    for database in databases:
        _execute('GRANT ALL PRIVILEGES ON %s.* TO %s' % (_pattern(database), _user(name, host)))
    return list_access(name, host)


def revoke_access(name, database, host='%'):
    """Takes the rights in a database from a user. Gives the databases that are left."""
    _require(name, host)
    if database in list_access(name, host):
        _execute('REVOKE ALL PRIVILEGES ON %s.* FROM %s' % (_pattern(database), _user(name, host)))
    return list_access(name, host)


def list_access(name, host='%'):
    """Names of the databases that a user has rights in."""
    rows = _execute('SELECT JSON_ARRAY(Db) FROM mysql.db WHERE User = %s AND Host = %s'
                    % (_text(name), _text(host)))
    return sorted(_unpattern(it[0]) for it in rows)


# The user root, which customers may ask for. The administrator is root@localhost, by the socket.

def enable_root(password):
    """Makes the user root for all hosts, or gives it another password."""
    _execute("CREATE OR REPLACE USER 'root'@'%%' IDENTIFIED BY PASSWORD %s" % _hash(password))
    _execute("GRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION")


def disable_root():
    """Removes it. Gives whether it was there."""
    before = is_root_enabled()
    _execute("DROP USER IF EXISTS 'root'@'%'")
    return before


def is_root_enabled():
    """Whether the user root may come from all hosts."""
    return _exists('root', '%')


# Databases.

def create_database(name, character_set='utf8mb4', collate=None):
    """Makes a database. Gives whether it was not there."""
    before = _has_database(name)
    collation = '' if collate is None else ' COLLATE %s' % _text(collate)
    _execute('CREATE DATABASE IF NOT EXISTS %s CHARACTER SET %s%s'
             % (_name(name), _text(character_set), collation))
    return not before


def delete_database(name):
    """Removes a database and what is in it. Gives whether it was there."""
    before = _has_database(name)
    _execute('DROP DATABASE IF EXISTS %s' % _name(name))
    return before


def list_databases(limit=None, marker=None, include_marker=False):
    """A page of databases, by name: a map with ``databases`` and ``next_marker``."""
    rows = _execute(
        'SELECT JSON_ARRAY(SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME) '
        'FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN (%s)'
        % _texts(_HIDDEN_DATABASES))
    page, following = _page(rows, lambda it: it[0], limit, marker, include_marker)
    databases = [dict(zip(('name', 'character_set', 'collate'), it)) for it in page]
    return {'databases': databases, 'next_marker': following}


def _page(entries, key, limit, marker, include_marker):
    """Those behind the marker, and the marker of the next page; None: there is none."""
    limit = _DEFAULT_LIMIT if limit is None else int(limit)
    left = sorted((it for it in entries if marker is None or key(it) > marker
                   or (include_marker and key(it) == marker)), key=key)
    page = left[:limit]
    return page, key(page[-1]) if page and len(left) > limit else None


def _identity(user):
    return '%s@%s' % user


def _exists(name, host):
    return _execute('SELECT JSON_ARRAY(User) FROM mysql.user WHERE User = %s AND Host = %s'
                    % (_text(name), _text(host))) != []


def _require(name, host):
    if not _exists(name, host):
        raise ValueError('there is no user of this name and host')


def _has_database(name):
    return _execute('SELECT JSON_ARRAY(1) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s'
                    % _text(name)) != []


def _user(name, host):
    return '%s@%s' % (_text(name), _text(host))


def _hash(password):
    """As mysql_native_password stores it."""
    inner = hashlib.sha1(password.encode('utf-8')).digest()
    return "'*%s'" % hashlib.sha1(inner).hexdigest().upper()


def _pattern(database):
    """In grants _ and % stand for other characters, unless they are escaped."""
    escaped = database.replace('\\', '\\\\').replace('_', '\\_').replace('%', '\\%')
    return _name(escaped)


def _unpattern(text):
    return text.replace('\\_', '_').replace('\\%', '%').replace('\\\\', '\\')


def _texts(values):
    return ', '.join(_text(it) for it in values)


def _text(value):
    return __salt__['trove_server.quote_text'](value)


def _name(value):
    return __salt__['trove_server.quote_name'](value)


def _execute(statement):
    return __salt__['trove_server.execute'](statement)
