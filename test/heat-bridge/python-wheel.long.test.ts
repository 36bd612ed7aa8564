/** The wheel of the Python module is built without a network, installed, and used with a bridge. */
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { type Declare, testWhere } from '../helpers/needs.ts';
import { findPythons } from '../helpers/pythons.ts';
import { password, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { acl, echo } from './stage.ts';

const builder = fileURLToPath(new URL('../../clients/python/build_wheel.py', import.meta.url));
const pythons = findPythons();
const run = promisify(execFile);

const program = `
import os, pathlib, sys
import saltbridge_bridge
place = pathlib.Path(saltbridge_bridge.__file__)
assert str(place).startswith(sys.prefix), place
assert (place.parent / 'py.typed').exists()
bridge = saltbridge_bridge.Bridge(os.environ['SALTBRIDGE_URL'], 'limited',
                                  os.environ['SALTBRIDGE_PASSWORD'], eauth='sharedsecret')
params = {'text': 'from the wheel'}
assert [it['name'] for it in bridge.commands()] == ['demo.echo']
run = bridge.start('demo.echo', 'web*', params, idempotency_key='k')
assert bridge.wait(run)['id'] == run
assert bridge.run('demo.echo', 'web*', params, idempotency_key='k')['id'] == run
assert [it['type'] for it in bridge.follow(run)][-1] == 'outcome'
for wrong, call in [('ERR_COMMAND_PARAMETERS', lambda: bridge.run('demo.echo', 'web*', {'txt': ''})),
                    ('ERR_COMMAND_DENIED', lambda: bridge.run('demo.echo', 'db*', params))]:
    try:
        call()
    except saltbridge_bridge.BridgeError as error:
        assert error.code == wrong, error.code
    else:
        raise AssertionError(wrong)
stranger = saltbridge_bridge.Bridge(os.environ['SALTBRIDGE_URL'], 'limited', 'x', eauth='sharedsecret')
try:
    stranger.commands()
except saltbridge_bridge.BridgeError as error:
    assert 'the log-in of limited (eauth sharedsecret) was refused' in str(error), error
else:
    raise AssertionError('logged in')
print(bridge.run('demo.echo', 'web*', params)['results'][0]['return'])
`;

for (const [index, { program: python3, version }] of pythons.entries()) {
  const declare: Declare = index === 0 ? test : test.serial;
  declare(
    `the wheel is the same each time, and calls a bridge from Python ${version}`,
    async (t) => {
      t.timeout(180_000);
      const directory = temporaryDirectory(t);
      const wheels = await Promise.all(
        ['one', 'two'].map(async (name) => {
          mkdirSync(path.join(directory, name));
          const { stdout } = await run(python3, [builder, path.join(directory, name)]);
          return path.join(directory, name, stdout.trim());
        }),
      );
      const [wheel = '', again = ''] = wheels;
      t.deepEqual(readFileSync(wheel), readFileSync(again));
      const environment = path.join(directory, 'venv');
      await run(python3, ['-m', 'venv', environment]);
      const python = path.join(environment, 'bin/python');
      await run(python, ['-m', 'pip', 'install', '--no-index', wheel]);

      const bridge = createBridge({ commands: [echo] });
      const rule = allow('limited', {
        subject: { user: 'limited' },
        action: 'command',
        resource: { fun: 'demo.*', within: 'web*' },
      });
      const { port } = await startApi(t, {
        config: { acl: acl([rule]) },
        extensions: [bridge],
        options: { plugins: [bridge.http] },
        functions: { 'test.echo': ({ kwargs: { text } }) => text ?? null },
      });
      const env = {
        PATH: process.env.PATH ?? '',
        SALTBRIDGE_URL: `http://127.0.0.1:${port}`,
        SALTBRIDGE_PASSWORD: password,
      };
      const { stdout } = await run(python, ['-c', program], { cwd: directory, env });
      t.is(stdout.trim(), 'from the wheel');
    },
  );
}

testWhere(pythons.length > 0, 'the package python3-venv')(
  'there is a Python for the wheel',
  (t) => {
    t.log(pythons.map(({ version }) => version).join(' '));
    t.pass();
  },
);
