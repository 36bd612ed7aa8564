"""Trove's guest agent, by a saltbridge bridge: for trove-taskmanager in place of its RPC client.

``GuestAgent`` has the methods and arguments of Trove's ``guestagent.api.API``; what Trove *casts*
returns as soon as the run is accepted, what it *calls* returns the answer of the instance. Users and
databases are maps as Trove serialises them: ``_name``, ``_host``, ``_password``, ``_databases``.

The minion of an instance is called ``trove-PROJECT-INSTANCE`` here; see ``minion_of``.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import secrets
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from saltbridge_bridge import Bridge, BridgeError

Map = Dict[str, Any]

# Options that the catalog permits, and how their values are read from a text of my.cnf.
_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    'innodb_buffer_pool_size': lambda text: _bytes(text),
    'max_connections': int,
    'wait_timeout': int,
    'max_allowed_packet': lambda text: _bytes(text),
    'slow_query_log': lambda text: text.lower() in ('1', 'on', 'true'),
    'long_query_time': float,
    'sql_mode': str,
}


class GuestError(Exception):
    """The instance failed, or did not answer."""


def minion_of(project: str, instance: str) -> str:
    """Id of the minion of an instance."""
    return 'trove-%s-%s' % (project, instance)


class GuestAgent:
    """The guest agent of one instance.

    ``request_id`` is that of Trove's request context: the same call of the same request is the same
    run, however often a task manager that was restarted makes it. ``on_cast`` is told the name of
    each cast and the id of its run, whose outcome ``Bridge.outcome`` has.
    """

    def __init__(self, bridge: Bridge, minion: str, request_id: Optional[str] = None,
                 on_cast: Callable[[str, str], None] = lambda method, run_id: None) -> None:
        self._bridge = bridge
        self._minion = minion
        self._request_id = request_id
        self._on_cast = on_cast

    # The instance.

    def prepare(self, memory_mb: int, packages: Sequence[str], databases: Sequence[Map],
                users: Sequence[Map], device_path: str = '/dev/vdb',
                mount_point: str = '/mnt/volume', backup_info: Optional[Map] = None,
                config_contents: Optional[str] = None, root_password: Optional[str] = None,
                overrides: Optional[Map] = None, cluster_config: Optional[Map] = None,
                snapshot: Optional[Map] = None, modules: Optional[Sequence[Map]] = None,
                ds_version: Optional[str] = None) -> None:
        """Makes the server with its databases and users. The image has the packages and the volume."""
        for name, value in (('cluster_config', cluster_config), ('snapshot', snapshot),
                            ('modules', modules)):
            if value:
                raise NotImplementedError('prepare: the catalog has nothing for %s' % name)
        self._run('sync-modules')
        params: Map = {'memory_mb': memory_mb, 'config': _options(config_contents),
                       'overrides': overrides or {}}
        if backup_info is not None:
            params['backup_info'] = {key: backup_info[key] for key in ('id', 'location', 'checksum')
                                     if backup_info.get(key) is not None}
        self._run('prepare', params)
        for database in databases:
            self._run('create-database', _database_params(database))
        for user in users:
            self._run('create-user', _user_params(user))
        if root_password is not None:
            self._run('enable-root', {'password': root_password})

    def restart(self) -> None:
        self._run('restart')

    def stop_db(self) -> None:
        self._run('stop-db')

    def start_db_with_conf_changes(self, config_contents: str, ds_version: Optional[str]) -> None:
        self._run('start-db-with-conf-changes', {'configuration': _options(config_contents)})

    def reset_configuration(self, configuration: Map) -> None:
        options = _options(configuration.get('config_contents'))
        self._run('reset-configuration', {'configuration': options})

    def update_overrides(self, overrides: Map, remove: bool = False) -> None:
        self._run('update-overrides', {'overrides': overrides, 'remove': remove})

    def apply_overrides(self, overrides: Map) -> None:
        self._run('apply-overrides', {'overrides': overrides})

    def resize_fs(self, device_path: Optional[str] = None, mount_point: Optional[str] = None,
                  online: bool = False) -> None:
        self._run('resize-fs', {'device_path': device_path or '/dev/vdb', 'online': online})

    def get_filesystem_stats(self, fs_path: Optional[str] = None) -> Map:
        return self._run('get-filesystem-stats')

    # Users.

    def create_user(self, users: Sequence[Map]) -> None:
        for user in users:
            self._cast('create_user', 'create-user', _user_params(user))

    def delete_user(self, user: Map) -> None:
        self._cast('delete_user', 'delete-user', _identity(_field(user, 'name'),
                                                           _field(user, 'host')))

    def change_passwords(self, users: Sequence[Map]) -> None:
        for user in users:
            params = dict(_identity(_field(user, 'name'), _field(user, 'host')),
                          password=_field(user, 'password'))
            self._cast('change_passwords', 'change-passwords', params)

    def update_attributes(self, username: str, hostname: Optional[str], user_attrs: Map) -> None:
        new_name, new_host = user_attrs.get('name'), user_attrs.get('host')
        if user_attrs.get('password') is not None:
            # Before the name changes; waited for, so that both do not change at once.
            self._run('change-passwords', dict(_identity(username, hostname),
                                               password=user_attrs['password']))
        if new_name is not None or new_host is not None:
            params = dict(_identity(username, hostname), **_present(new_name=new_name,
                                                                    new_host=new_host))
            self._cast('update_attributes', 'update-attributes', params)

    def get_user(self, username: str, hostname: Optional[str]) -> Optional[Map]:
        found = self._run('get-user', _identity(username, hostname))
        return None if found is None else _trove_user(found)

    def list_users(self, limit: Optional[int] = None, marker: Optional[str] = None,
                   include_marker: bool = False) -> Tuple[List[Map], Optional[str]]:
        page = self._run('list-users', _page(limit, marker, include_marker))
        return [_trove_user(it) for it in page['users']], page['next_marker']

    def grant_access(self, username: str, hostname: Optional[str],
                     databases: Sequence[str]) -> None:
        self._run('grant-access', dict(_identity(username, hostname), databases=list(databases)))

    def revoke_access(self, username: str, hostname: Optional[str], database: str) -> None:
        self._run('revoke-access', dict(_identity(username, hostname), database=database))

    def list_access(self, username: str, hostname: Optional[str]) -> List[Map]:
        names = self._run('list-access', _identity(username, hostname))
        return [_trove_database({'name': it}) for it in names]

    def enable_root(self) -> Map:
        """The password is made here, because what an instance returns is in its job."""
        return self.enable_root_with_password(None)

    def enable_root_with_password(self, root_password: Optional[str] = None) -> Map:
        password = root_password or secrets.token_urlsafe(24)
        self._run('enable-root', {'password': password})
        return {'_name': 'root', '_host': '%', '_password': password, '_databases': [],
                '_is_root': True}

    def disable_root(self) -> None:
        self._run('disable-root')

    def is_root_enabled(self) -> bool:
        return self._run('is-root-enabled')

    # Databases.

    def create_database(self, databases: Sequence[Map]) -> None:
        for database in databases:
            self._cast('create_database', 'create-database', _database_params(database))

    def delete_database(self, database: Map) -> None:
        self._cast('delete_database', 'delete-database', {'name': _field(database, 'name')})

    def list_databases(self, limit: Optional[int] = None, marker: Optional[str] = None,
                       include_marker: bool = False) -> Tuple[List[Map], Optional[str]]:
        page = self._run('list-databases', _page(limit, marker, include_marker))
        return [_trove_database(it) for it in page['databases']], page['next_marker']

    # Backups.

    def create_backup(self, backup_info: Map) -> None:
        if backup_info.get('backup_type', 'full') != 'full' or backup_info.get('parent'):
            raise NotImplementedError('create_backup: the catalog has full backups only')
        self._cast('create_backup', 'create-backup', {'backup_id': backup_info['id']})

    # Runs.

    def _run(self, command: str, params: Optional[Map] = None) -> Any:
        """What the instance returned. Raises GuestError."""
        outcome = self._bridge.run('trove.' + command, [self._minion], params or {},
                                   **self._key(command, params))
        return returned(command, outcome)

    def _cast(self, method: str, command: str, params: Map) -> None:
        run_id = self._bridge.start('trove.' + command, [self._minion], params,
                                    **self._key(command, params))
        self._on_cast(method, run_id)

    def _key(self, command: str, params: Optional[Map]) -> Map:
        """Of changes: what only reads is read again. A password is no part of it."""
        if self._request_id is None or command.startswith(('list-', 'get-', 'is-')):
            return {}
        told = {key: value for key, value in (params or {}).items() if key != 'password'}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
        return {'idempotency_key': '%s/%s/%s/%s' % (self._request_id, self._minion, command, digest)}


def returned(command: str, outcome: Map) -> Any:
    """The return of the one minion of a run. Raises GuestError."""
    result = outcome['results'][0] if outcome['results'] else {}
    if outcome['status'] == 'succeeded':
        return result.get('return')
    text = result.get('return')
    # What a failing module says is its return.
    reason = text if isinstance(text, str) else result.get('reason')
    raise GuestError('%s %s: %s' % (command, outcome['status'], reason))


def _options(config_contents: Optional[str]) -> Map:
    """Those of a text of my.cnf that the catalog permits; the server's places are its own."""
    if not config_contents:
        return {}
    parser = configparser.ConfigParser(allow_no_value=True, interpolation=None, strict=False)
    parser.read_string(config_contents)
    section = parser['mysqld'] if 'mysqld' in parser else {}
    names = {name.replace('-', '_'): value for name, value in section.items()}
    return {name: read(names[name]) for name, read in _OPTIONS.items() if names.get(name)}


def _bytes(text: str) -> int:
    unit = {'k': 10, 'm': 20, 'g': 30}.get(text[-1].lower())
    return int(text) if unit is None else int(text[:-1]) << unit


def _field(entry: Map, name: str) -> Any:
    return entry.get('_' + name, entry.get(name))


def _present(**fields: Any) -> Map:
    return {key: value for key, value in fields.items() if value is not None}


def _identity(name: str, host: Optional[str]) -> Map:
    return {'name': name, 'host': host or '%'}


def _user_params(user: Map) -> Map:
    databases = [it if isinstance(it, str) else _field(it, 'name')
                 for it in _field(user, 'databases') or []]
    return dict(_identity(_field(user, 'name'), _field(user, 'host')),
                password=_field(user, 'password'), databases=databases)


def _database_params(database: Map) -> Map:
    return _present(name=_field(database, 'name'), character_set=_field(database, 'character_set'),
                    collate=_field(database, 'collate'))


def _page(limit: Optional[int], marker: Optional[str], include_marker: bool) -> Map:
    return dict(_present(limit=limit, marker=marker), include_marker=bool(include_marker))


def _trove_user(user: Map) -> Map:
    return {'_name': user['name'], '_host': user['host'], '_password': None, '_is_root': False,
            '_databases': [_trove_database({'name': it}) for it in user['databases']]}


def _trove_database(database: Map) -> Map:
    return {'_name': database['name'], '_character_set': database.get('character_set'),
            '_collate': database.get('collate')}


__all__ = ['BridgeError', 'GuestAgent', 'GuestError', 'minion_of', 'returned']
