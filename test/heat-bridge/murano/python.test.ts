/** The Python class for execution plans, with a bridge. */
import { execFile, spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { testWhere } from '../../helpers/needs.ts';
import { password, startApi } from '../../helpers/salt-api.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { acl, echo } from '../stage.ts';

const program = `
import os, subprocess, unittest
from saltbridge_bridge import AgentException, Bridge, MuranoAgent

class Resources:
    def string(self, name):
        return {'scripts/deploy-web.sh': '#!/bin/sh\\n', 'scripts/common.bin': b'\\xff'}[name]

def sign(data):
    key = os.environ['KEY']
    return subprocess.run(['openssl', 'dgst', '-sha256', '-sign', key], input=data,
                          stdout=subprocess.PIPE, check=True).stdout

template = {
    'FormatVersion': '2.1.0', 'Version': '1.0.0', 'Name': 'Deploy web', 'Parameters': {'text': 'hi'},
    'Body': 'return deploy(args.text).stdout\\n',
    'Scripts': {'deploy': {'Type': 'Application', 'Version': '1.0.0', 'EntryPoint': 'deploy-web.sh',
                           'Files': ['<common.bin>'], 'Options': {}}},
}

class MuranoTest(unittest.TestCase):
    def setUp(self):
        bridge = Bridge(os.environ['SALTBRIDGE_URL'], 'limited', os.environ['SALTBRIDGE_PASSWORD'],
                        eauth='sharedsecret')
        self.agent = MuranoAgent(bridge, 'web1', sign=sign)
        self.other = MuranoAgent(bridge, 'web1')

    def test_calls(self):
        self.assertEqual(self.agent.call(template, Resources(), timeout=30), 'hi')
        self.assertIsNone(self.agent.send(template, Resources()))
        self.assertEqual(template['Scripts']['deploy']['EntryPoint'], 'deploy-web.sh')

    def test_is_ready(self):
        self.assertTrue(self.agent.is_ready())
        self.assertFalse(self.other.is_ready())

    def test_refusals(self):
        for agent, body, code in [(self.agent, 'return deploy().x', 2), (self.other, 'return', 2)]:
            with self.assertRaises(AgentException) as caught:
                agent.call_raw({'Body': body, 'Scripts': {}, 'Files': {}})
            self.assertEqual(caught.exception.error_code, code)

unittest.main()
`;

const isThere = ['python3', 'openssl'].every(
  (it) => spawnSync('sh', ['-c', `command -v ${it}`]).status === 0,
);

testWhere(isThere, 'the packages python3 and openssl')(
  'a program with execution plans calls them as an agent of Murano',
  async (t) => {
    const directory = temporaryDirectory(t);
    const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const keyFile = (name: string, pem: string | Buffer): string => {
      const file = path.join(directory, name);
      writeFileSync(file, pem);
      return file;
    };
    const open = keyFile('key.pem', publicKey.export({ type: 'spki', format: 'pem' }));
    const secret = keyFile('secret.pem', privateKey.export({ type: 'pkcs8', format: 'pem' }));
    const catalog = path.join(directory, 'catalog.yaml');
    writeFileSync(
      catalog,
      'murano: { demo.entry: { description: x, type: Application, entry_point: deploy-web.sh, command: demo.echo } }\n',
    );
    const bridge = createBridge({ commands: [echo] });
    const rule = allow('limited', {
      subject: { user: 'limited' },
      action: 'command',
      resource: { fun: 'demo.*', within: 'web*' },
    });
    const { port } = await startApi(t, {
      config: {
        acl: acl([rule]),
        bridge: { catalog: [catalog], murano: { keys: { default: open } } },
      },
      extensions: [bridge],
      options: { plugins: [bridge.http] },
      functions: { 'test.echo': ({ kwargs: { text } }) => text ?? null },
    });
    const env = {
      ...process.env,
      KEY: secret,
      SALTBRIDGE_URL: `http://127.0.0.1:${port}`,
      SALTBRIDGE_PASSWORD: password,
      PYTHONDONTWRITEBYTECODE: '1',
    };
    const cwd = fileURLToPath(new URL('../../../clients/python', import.meta.url));
    const { stderr } = await promisify(execFile)('python3', ['-c', program], { cwd, env });
    t.regex(stderr, /Ran 3 tests/);
  },
);
