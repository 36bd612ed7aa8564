"""The MariaDB server of a Trove instance: its files, its process, its configuration, its backups.

Everything is below one directory, by the minion's option ``trove``:

    trove:
      directory: /var/lib/trove   # data, my.cnf, socket
      store: /var/backups/trove   # the file store of backups, the same for all instances of a project
      port: 3306
      bind_address: 127.0.0.1
      device: /dev/vdb            # the volume that resize_fs may grow

Programs: mariadbd and mariadb-install-db (Debian: mariadb-server-core), mariadb (mariadb-client-core).
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tarfile
import time

from salt.exceptions import CommandExecutionError

_DEFAULTS = {'directory': '/var/lib/trove', 'store': '/var/backups/trove', 'port': 3306,
             'bind_address': '127.0.0.1', 'device': None}
_START_SECONDS = 60
_STOP_SECONDS = 60
_OPTION = re.compile(r'[a-z][a-z0-9_]*\Z')
_BACKUP_ID = re.compile(r'[A-Za-z0-9][A-Za-z0-9-]{0,63}\Z')
_MEBIBYTE = 1024 * 1024


def __virtual__():
    if shutil.which('mariadbd') is None:
        return False, 'mariadbd was not found (Debian: mariadb-server-core)'
    return True


# The process.

def prepare(memory_mb=None, config=None, overrides=None, backup_info=None):
    """Makes the database directory, or restores it from a backup, and starts the server.

    An instance that was prepared keeps its data and its configuration.
    """
    fresh = not _data().exists()
    if fresh:
        _root().mkdir(mode=0o700, parents=True, exist_ok=True)
        incoming = _root() / 'data.new'
        shutil.rmtree(incoming, ignore_errors=True)
        incoming.mkdir(mode=0o700)
        if backup_info is None:
            _install(incoming)
        else:
            _unpack(backup_info, incoming)
        base = dict(config or {})
        if memory_mb is not None:
            size = max(16, int(memory_mb) // 2)
            base.setdefault('innodb_buffer_pool_size', size * _MEBIBYTE)
        _write_config(base, overrides or {})
        # From here on it is prepared.
        incoming.rename(_data())
    start()
    return {'prepared': fresh, 'restored': fresh and backup_info is not None}


def start():
    """Starts the server unless it runs. Gives its process id."""
    running = pid()
    if running is not None:
        return running
    if not _data().exists():
        raise CommandExecutionError('the instance is not prepared')
    # A session of its own: it outlives the minion.
    process = subprocess.Popen(
        ['mariadbd', '--defaults-file=%s' % _my_cnf()], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + _START_SECONDS
    while not _answers():
        if process.poll() is not None or time.monotonic() > end:
            raise CommandExecutionError('mariadbd did not start: %s' % _log_end())
        time.sleep(0.1)
    return pid()


def stop():
    """Stops the server, and waits until it has ended."""
    running = pid()
    if running is None:
        return False
    os.kill(running, signal.SIGTERM)
    end = time.monotonic() + _STOP_SECONDS
    while pid() is not None:
        if time.monotonic() > end:
            raise CommandExecutionError('mariadbd (%d) has not ended in %d s'
                                        % (running, _STOP_SECONDS))
        time.sleep(0.1)
    return True


def restart():
    """Stops and starts the server. Gives its process id."""
    stop()
    return start()


def pid():
    """Process id of the server; None where it does not run."""
    try:
        number = int((_root() / 'mariadbd.pid').read_text())
        arguments = pathlib.Path('/proc/%d/cmdline' % number).read_bytes().split(b'\0')
        state = pathlib.Path('/proc/%d/stat' % number).read_text().rpartition(')')[2].split()[0]
    except (OSError, ValueError):
        return None
    # The number may belong to another program since, and a zombie has ended.
    return number if state != 'Z' and b'--defaults-file=%s' % os.fsencode(_my_cnf()) in arguments else None


# Its configuration.

def reset_configuration(configuration):
    """Replaces the basic options; overrides stay. They are in force after the next start."""
    _write_config(configuration, _config()['overrides'])
    return _config()


def update_overrides(overrides=None, remove=False):
    """Sets overrides of the basic options, or removes those of these names (without names: all)."""
    current = _config()
    if remove:
        kept = {key: value for key, value in current['overrides'].items()
                if overrides and key not in overrides}
    else:
        kept = dict(current['overrides'], **(overrides or {}))
    _write_config(current['base'], kept)
    return _config()


def apply_overrides(overrides):
    """Sets options of the running server."""
    for name, value in sorted(overrides.items()):
        execute('SET GLOBAL %s = %s' % (_option(name), _sql_value(value)))
    return {name: variable(name) for name in sorted(overrides)}


def start_db_with_conf_changes(configuration):
    """Replaces the basic options and starts the server, as after a change of flavour."""
    if pid() is not None:
        raise CommandExecutionError('the server runs; stop it first')
    reset_configuration(configuration)
    return start()


def variable(name):
    """Value of an option of the running server, as text."""
    [row] = execute('SELECT JSON_ARRAY(CAST(@@GLOBAL.%s AS CHAR))' % _option(name))
    return row[0]


# Its volume.

def resize_fs(device_path, online=False):
    """Grows the file system of the instance's volume to the size of the device."""
    if device_path != _setting('device'):
        raise CommandExecutionError('this is not the volume of the instance (option trove: device)')
    if not online:
        if pid() is not None:
            raise CommandExecutionError('the server runs; stop it first')
        _run(['e2fsck', '-f', '-p', device_path], accepted=(0, 1))
    before = _blocks(device_path)
    _run(['resize2fs', device_path])
    return {'blocks_before': before, 'blocks': _blocks(device_path)}


def get_filesystem_stats():
    """Sizes in GiB of the file system with the data, as Trove reports them."""
    place = os.statvfs(_root())
    total = place.f_blocks * place.f_frsize
    free = place.f_bavail * place.f_frsize
    gib = 1024.0 ** 3
    return {'block_size': place.f_bsize, 'total_blocks': place.f_blocks,
            'free_blocks': place.f_bavail, 'total': round(total / gib, 2),
            'free': round(free / gib, 2), 'used': round((total - free) / gib, 2)}


# Its backups.

def create_backup(backup_id):
    """Writes a full backup into the file store. The server is stopped meanwhile.

    A backup that is there stays as it is: the same id gives the same backup.
    """
    store = pathlib.Path(_setting('store'))
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = store / _backup_name(backup_id)
    if not target.exists():
        incoming = store / ('.%s.new' % target.name)
        was_running = stop()
        try:
            with open(os.open(incoming, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'wb') as file:
                with tarfile.open(fileobj=file, mode='w:gz', compresslevel=1) as archive:
                    archive.add(_data(), arcname='.')
                file.flush()
                os.fsync(file.fileno())
            incoming.rename(target)
        finally:
            if was_running:
                start()
    return {'id': backup_id, 'location': target.name, 'checksum': _digest(target),
            'size': target.stat().st_size, 'type': 'full', 'state': 'COMPLETED'}


def delete_backup(backup_id):
    """Removes a backup from the file store. Gives whether it was there."""
    try:
        (pathlib.Path(_setting('store')) / _backup_name(backup_id)).unlink()
    except FileNotFoundError:
        return False
    return True


# SQL, for trove_mariadb.

def execute(statement):
    """Runs one statement as the administrator. Gives rows that are JSON, as lists."""
    # In hexadecimal, so that the client program finds nothing in it that it interprets.
    text = "EXECUTE IMMEDIATE CONVERT(X'%s' USING utf8mb4);" % statement.encode('utf-8').hex()
    command = ['mariadb', '--defaults-file=%s' % _my_cnf(), '--batch', '--raw', '--binary-mode',
               '--skip-column-names', '--default-character-set=utf8mb4', '--user=%s' % _account()]
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        # ERROR 1007 (HY000) at line 1: …
        raise CommandExecutionError(done.stderr.decode('utf-8', 'replace').strip())
    return [json.loads(line) for line in done.stdout.decode('utf-8').splitlines()]


def quote_text(text):
    """A literal of SQL."""
    return "'%s'" % text.replace('\\', '\\\\').replace("'", "''")


def quote_name(name):
    """A name of SQL, such as that of a database."""
    return '`%s`' % name.replace('`', '``')


def _install(directory):
    _run(['mariadb-install-db', '--no-defaults', '--datadir=%s' % directory, '--skip-test-db',
          '--auth-root-authentication-method=socket', '--auth-root-socket-user=%s' % _account(),
          '--user=%s' % _account()])


def _unpack(backup_info, directory):
    source = pathlib.Path(_setting('store')) / _backup_name(backup_info['id'])
    if backup_info.get('location') not in (None, source.name):
        raise CommandExecutionError('location: expected %s' % source.name)
    if not source.exists():
        raise CommandExecutionError('the file store has no backup %s' % backup_info['id'])
    if _digest(source) != backup_info['checksum']:
        raise CommandExecutionError('the backup %s does not have this checksum' % backup_info['id'])
    with tarfile.open(source) as archive:
        for member in archive:
            if not (member.isfile() or member.isdir()) or '..' in member.name.split('/') \
                    or member.name.startswith('/'):
                raise CommandExecutionError('the backup has a member that is no file of a database')
            archive.extract(member, directory)


def _write_config(base, overrides):
    for name, value in list(base.items()) + list(overrides.items()):
        _option(name)
        if not isinstance(value, (bool, int, float, str)) or '\n' in str(value):
            raise CommandExecutionError('%s: expected a number or one line of text' % name)
    _replace(_root() / 'config.json', json.dumps({'base': base, 'overrides': overrides}))
    lines = ['%s = %s' % (name, _cnf_value(value))
             for name, value in sorted(dict(base, **overrides).items())]
    _replace(_my_cnf(), '\n'.join(['[mariadbd]'] + lines + [
        'datadir = %s' % _data(), 'socket = %s' % _socket(), 'port = %d' % int(_setting('port')),
        'bind_address = %s' % _setting('bind_address'),
        'pid_file = %s' % (_root() / 'mariadbd.pid'),
        'log_error = %s' % (_root() / 'error.log'),
        'user = %s' % _account(), 'skip_name_resolve = ON', 'local_infile = OFF', '',
        '[client]', 'socket = %s' % _socket(), '']))


def _replace(path, text):
    incoming = path.with_name(path.name + '.new')
    incoming.write_text(text)
    incoming.rename(path)


def _config():
    try:
        return json.loads((_root() / 'config.json').read_text())
    except FileNotFoundError:
        raise CommandExecutionError('the instance is not prepared') from None


def _cnf_value(value):
    return {True: 'ON', False: 'OFF'}[value] if isinstance(value, bool) else value


def _sql_value(value):
    if isinstance(value, bool):
        return 'ON' if value else 'OFF'
    return str(value) if isinstance(value, (int, float)) else quote_text(value)


def _option(name):
    if _OPTION.match(name) is None:
        raise CommandExecutionError('expected the name of an option, with _ between words')
    return name


def _backup_name(backup_id):
    if _BACKUP_ID.match(backup_id) is None:
        raise CommandExecutionError('backup: expected letters, digits and - in its id')
    return '%s.tar.gz' % backup_id


def _digest(path):
    digest = hashlib.sha256()
    with open(path, 'rb') as file:
        for block in iter(lambda: file.read(_MEBIBYTE), b''):
            digest.update(block)
    return digest.hexdigest()


def _blocks(device_path):
    text = _run(['dumpe2fs', '-h', device_path])
    return int(re.search(r'^Block count:\s+(\d+)', text, re.MULTILINE).group(1))


def _run(command, accepted=(0,)):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode not in accepted:
        text = done.stderr.decode('utf-8', 'replace').strip()
        raise CommandExecutionError('%s: %s' % (command[0], text[-1000:]))
    return done.stdout.decode('utf-8', 'replace')


def _answers():
    try:
        execute('SELECT JSON_ARRAY(1)')
    except CommandExecutionError:
        return False
    return True


def _log_end():
    try:
        return (_root() / 'error.log').read_text(errors='replace')[-1000:]
    except OSError:
        return 'it wrote no log'


def _account():
    """The operating system's account, which the server runs as and its administrator is."""
    import pwd
    return pwd.getpwuid(os.getuid()).pw_name


def _setting(name):
    given = __opts__.get('trove') or {}
    return given.get(name, _DEFAULTS[name])


def _root():
    return pathlib.Path(_setting('directory'))


def _data():
    return _root() / 'data'


def _socket():
    return _root() / 'mariadbd.sock'


def _my_cnf():
    return _root() / 'my.cnf'
