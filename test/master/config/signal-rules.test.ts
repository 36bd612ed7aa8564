import test from 'ava';
import { loadMasterConfig } from '../../../master/config/load.ts';
import { ConfigError } from '../../../master/config/option-kinds.ts';
import { resolveMasterConfig } from '../../../master/config/resolve.ts';
import { configDirectory } from './files.ts';

test('signal rules of several files are put together', async (t) => {
  const directory = configDirectory(t, {
    master: 'saltbridge: {acl: {signals: [{tag: my/site/*}]}}',
    'master.d/a.conf': 'saltbridge: {acl: {signals: [{tag: deploy/done, minions: web*}]}}',
  });
  const { config } = await loadMasterConfig(directory);
  t.deepEqual(config.acl.signals, [
    { tag: 'my/site/*', minions: '*' },
    { tag: 'deploy/done', minions: 'web*' },
  ]);
});

for (const [name, signals] of [
  ['no list', { tag: 'my/tag' }],
  ['a text', ['my/tag']],
  ['no tag', [{ minions: '*' }]],
  ['another field', [{ tag: 'my/tag', minion: 'web1' }]],
  ['a number for minions', [{ tag: 'my/tag', minions: 1 }]],
  ['wildcards alone', [{ tag: '*' }]],
  ['wildcards and slashes', [{ tag: '*/[a-z]?' }]],
] as const) {
  test(`signal rules with ${name} are refused`, (t) => {
    const acl: object = { signals };
    const error = t.throws(() => resolveMasterConfig({ acl }), { instanceOf: ConfigError });
    t.is(error?.code, 'ERR_OPTION_TYPE');
  });
}

test('a misspelt section of the acl is refused with its line', async (t) => {
  const directory = configDirectory(t, { master: 'saltbridge:\n  acl:\n    signal: []\n' });
  const error = await t.throwsAsync(loadMasterConfig(directory), { instanceOf: ConfigError });
  t.is(error?.code, 'ERR_OPTION_UNKNOWN');
  t.is(error?.line, 3);
});
