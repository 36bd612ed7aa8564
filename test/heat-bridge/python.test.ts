/** The Python module against a bridge, by its own tests. */
import { execFile, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';
import { allow } from '../../acl/index.ts';
import { createBridge } from '../../heat-bridge/index.ts';
import { password, startApi } from '../helpers/salt-api.ts';
import { keystoneSection, startKeystone, tokenOf } from './keystone/recorded-keystone.ts';
import { acl, echo, twice } from './stage.ts';

const directory = fileURLToPath(new URL('../../../clients/python', import.meta.url));
const hasPython = spawnSync('python3', ['--version']).status === 0;
const step = hasPython ? test : test.skip;

step(
  `${hasPython ? '' : 'no python3 here: '}the Python module does what its tests say`,
  async (t) => {
    const bridge = createBridge({ commands: [echo], plans: [twice] });
    const rule = allow('limited', {
      subject: { user: 'limited' },
      action: 'command',
      resource: { fun: 'demo.*', within: 'web*' },
    });
    const databases = allow('databases', {
      subject: { project: 'databases' },
      action: 'command',
      resource: { fun: 'demo.*' },
    });
    const keystone = await startKeystone(t);
    const { port } = await startApi(t, {
      config: {
        acl: acl([rule, databases]),
        bridge: { keystone: keystoneSection(keystone.url) },
      },
      extensions: [bridge],
      options: { plugins: [bridge.http] },
      functions: { 'test.echo': ({ kwargs: { text } }) => text ?? null },
    });
    const env = {
      ...process.env,
      SALTBRIDGE_URL: `http://127.0.0.1:${port}`,
      SALTBRIDGE_PASSWORD: password,
      KEYSTONE_TOKEN: tokenOf('trove'),
      PYTHONDONTWRITEBYTECODE: '1',
    };
    const run = promisify(execFile)('python3', ['-m', 'unittest', '-v'], { cwd: directory, env });
    const { stderr } = await run;
    t.regex(stderr, /Ran 13 tests/);
    t.false(stderr.includes('skipped'));
  },
);
