"""Builds the wheel of saltbridge_bridge: ``python3 build_wheel.py [DIRECTORY]``.

A build back end of PEP 517 as well, so that ``pip install clients/python`` works. The same sources
give the same bytes. In the wheel the module is a package, because only packages can say with
``py.typed`` that their types are meant for others; its name and its source are the same.
"""

import base64
import hashlib
import os
import re
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = 'saltbridge_bridge'
# The earliest that ZIP can say.
TIME = (1980, 1, 1, 0, 0, 0)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel. Gives the name of its file."""
    fields = _project()
    stem = '%s-%s' % (fields['name'].replace('-', '_'), fields['version'])
    files = {
        MODULE + '/__init__.py': _read(MODULE + '.py'),
        MODULE + '/py.typed': b'',
        stem + '.dist-info/METADATA': _metadata(fields),
        stem + '.dist-info/WHEEL': (b'Wheel-Version: 1.0\nGenerator: build_wheel\n'
                                    b'Root-Is-Purelib: true\nTag: py3-none-any\n'),
    }
    record = stem + '.dist-info/RECORD'
    rows = ['%s,sha256=%s,%d' % (name, _digest(data), len(data)) for name, data in files.items()]
    files[record] = '\n'.join(rows + [record + ',,', '']).encode()
    name = stem + '-py3-none-any.whl'
    with zipfile.ZipFile(os.path.join(wheel_directory, name), 'w') as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, TIME)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data, zipfile.ZIP_STORED)
    return name


def build_sdist(sdist_directory, config_settings=None):
    """Not served: the sources are those of the repository."""
    raise NotImplementedError('build the wheel')


def _project():
    """Texts of pyproject.toml; Python 3.8 has no module that reads TOML."""
    text = _read('pyproject.toml').decode()
    return dict(re.findall(r'^([a-z-]+) = "([^"]*)"$', text.partition('[project]')[2], re.MULTILINE))


def _metadata(fields):
    return ('Metadata-Version: 2.1\nName: %(name)s\nVersion: %(version)s\n'
            'Summary: %(description)s\nLicense: Apache-2.0\n'
            'Requires-Python: %(requires-python)s\n' % fields).encode()


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()


def _read(name):
    with open(os.path.join(HERE, name), 'rb') as file:
        return file.read()


if __name__ == '__main__':
    print(build_wheel(sys.argv[1] if len(sys.argv) > 1 else '.'))
