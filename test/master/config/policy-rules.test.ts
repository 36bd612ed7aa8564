/** `saltbridge: acl: rules:` as files have it. */
import test from 'ava';
import { rulesOf } from '../../../master/config/policy-rules.ts';
import { ConfigError, loadMasterConfig, resolveMasterConfig } from '../../../master/index.ts';
import { configDirectory } from './files.ts';

const written = `
saltbridge:
  acl:
    rules:
      jenkins may ask for puppet:
        subject: {minion: 'jenkins-*', except: jenkins-9}
        action: signal
        resource:
          tag: infra/puppet/requested
          schema: {type: object, required: [env]}
        rate: 10/minute
        expires: 2030-01-01
`;

test('rules of several files are put together, each with its place', async (t) => {
  const other =
    "saltbridge:\n  acl:\n    rules:\n      no db:\n        effect: deny\n        subject: {minion: 'db*'}\n        action: mine\n        resource: {fun: '*'}\n";
  const directory = configDirectory(t, { master: written, 'master.d/a.conf': other });
  const { config } = await loadMasterConfig(directory);
  const [first, second] = config.acl.rules;
  t.deepEqual(JSON.parse(JSON.stringify(first)), {
    name: 'jenkins may ask for puppet',
    effect: 'allow',
    subject: { minion: 'jenkins-*', except: 'jenkins-9' },
    action: 'signal',
    resource: {
      tag: 'infra/puppet/requested',
      schema: { type: 'object', required: ['env'] },
    },
    rate: '10/minute',
    expires: '2030-01-01T00:00:00.000Z',
    origin: { file: `${directory}/master`, line: 5 },
  });
  t.deepEqual(second?.origin, { file: `${directory}/master.d/a.conf`, line: 4 });
});

test('a rule that cannot be used ends the start, with its line and field', async (t) => {
  for (const [change, field] of [
    ['signal', 'action'],
    ['infra/puppet/requested', 'resource.tag'],
    ['required', 'resource.schema.requird'],
    ['10/minute', 'rate'],
    ['minion', 'subject'],
  ] as const) {
    const bad =
      { signal: 'singal', required: 'requird', minion: 'minoin' }[change as 'signal'] ?? '*';
    const directory = configDirectory(t, { master: written.replace(change, `'${bad}'`) });
    const error = await t.throwsAsync(loadMasterConfig(directory), { instanceOf: ConfigError });
    t.is(error?.code, 'ERR_OPTION_TYPE', field);
    t.is(error?.line, 5, field);
    t.true(error?.message.includes(`${field}`), error?.message);
  }
});

test('a nodegroup that nobody defined is refused, and one that is there is not', (t) => {
  const rule = {
    name: 'fronts',
    effect: 'allow',
    subject: { nodegroup: 'front' },
    action: 'signal',
    resource: { tag: 'my/tag' },
  } as const;
  const acl = { rules: [rule] };
  t.throws(() => resolveMasterConfig({ acl }), { instanceOf: ConfigError });
  t.is(resolveMasterConfig({ acl, nodegroups: { front: 'web*' } }).acl.rules.length, 1);
});

test('without options nothing is permitted but reading the mine and pillar of any environment', (t) => {
  const rules = rulesOf(resolveMasterConfig());
  t.deepEqual(
    rules.map(({ name, action }) => [name, action]),
    [
      ['mine', 'mine'],
      ['pillar', 'pillar'],
    ],
  );
});
