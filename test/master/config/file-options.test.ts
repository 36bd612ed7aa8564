import test from 'ava';
import { ConfigError, loadMasterConfig, resolveMasterConfig } from '../../../master/index.ts';
import { configDirectory } from './files.ts';

const sample = `
file_roots:
  base:
    - /srv/salt
    - /srv/formulas/*
  3006: /srv/one
  empty:
file_ignore_glob: '*.swp'
file_ignore_regex: ['/\\.git($|/)']
file_buffer_size: 262144
state_aggregate: [pkg]
env_order: [base, 3006]
jinja_env:
  trim_blocks: True
  nested: {list: [1, two, null, {deep: [yes]}]}
saltbridge:
  limits:
    file_bytes_per_second: 1000000
`;

test('the options of the file server are taken as Salt writes them', async (t) => {
  const { config, warnings } = await loadMasterConfig(configDirectory(t, { master: sample }));
  t.deepEqual(warnings, []);
  t.deepEqual(config.fileRoots, {
    base: ['/srv/salt', '/srv/formulas/*'],
    3006: ['/srv/one'],
    empty: [],
  });
  t.deepEqual(config.fileIgnoreGlob, ['*.swp']);
  t.deepEqual(config.fileIgnoreRegex, ['/\\.git($|/)']);
  t.is(config.fileBufferSize, 262_144);
  t.deepEqual(config.stateAggregate, ['pkg']);
  t.deepEqual(config.envOrder, ['base', '3006']);
  t.deepEqual(config.jinjaEnv, {
    trim_blocks: true,
    nested: { list: [1, 'two', null, { deep: [true] }] },
  });
  t.is(config.limits.fileBytesPerSecond, 1_000_000);
});

test('a file_recv_max_size above what a minion may push in all is a warning', async (t) => {
  const warningsOf = async (master: string): Promise<readonly string[]> => {
    const { warnings } = await loadMasterConfig(configDirectory(t, { master }));
    return warnings.map(({ kind, line }) => `${kind} ${line}`);
  };
  t.deepEqual(await warningsOf('file_recv: true\nfile_recv_max_size: 65\n'), ['bounded 2']);
  t.deepEqual(await warningsOf('file_recv: true\n'), ['bounded 1'], "Salt's default is 100");
  t.deepEqual(await warningsOf('file_recv: true\nfile_recv_max_size: 64\n'), []);
  t.deepEqual(await warningsOf('file_recv_max_size: 200\n'), []);
  const more = 'saltbridge: {limits: {pushed_bytes: 104857600}}\n';
  t.deepEqual(await warningsOf(`file_recv: true\n${more}`), []);
  const rule = 'subject: {minion: web*}, action: file-send, resource: {path: logs/*}';
  const acl = `saltbridge: {acl: {rules: {logs: {${rule}}}}}\n`;
  t.deepEqual(await warningsOf(acl), ['bounded 0']);
});

test('without options, files come from where Salt looks', (t) => {
  t.deepEqual(resolveMasterConfig().fileRoots, { base: ['/srv/salt', '/srv/spm/salt'] });
});

for (const [what, options] of Object.entries({
  'a relative root': { fileRoots: { base: ['srv'] } },
  'roots that are no map': { fileRoots: JSON.parse('["/srv/salt"]') },
  'a root that is a map': { fileRoots: JSON.parse('{"base": [{"a": 1}]}') },
  'an expression that cannot be read': { fileIgnoreRegex: ['('] },
  'an unknown way of merging': { topFileMergingStrategy: JSON.parse('"smart"') },
})) {
  test(`${what} is refused`, (t) => {
    t.throws(() => resolveMasterConfig(options), {
      instanceOf: ConfigError,
      code: 'ERR_OPTION_TYPE',
    });
  });
}
