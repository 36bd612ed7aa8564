/** `ext_pillar` as files and programs have it: what is asked, and what is refused. */
import test, { type ExecutionContext } from 'ava';
import { extPillarAdvice } from '../../../master/config/advice.ts';
import type { ExtPillarEntry } from '../../../master/config/ext-pillar.ts';
import { saltValues } from '../../../master/config/salt-values.ts';
import { ConfigError, loadMasterConfig, resolveMasterConfig } from '../../../master/index.ts';
import { configDirectory } from './files.ts';

const written = `ext_pillar:
  - minion_files: /srv/a
  - minion_files: {directory: /srv/b, max_bytes: 100}
    minion_http:
      url: https://cmdb.test:8443/pillar/{id}
      hosts: ["cmdb.test:8443"]
      headers: {authorization: Bearer planted}
      timeout: 2.5
      format: yaml
  - minion_http: {url: "http://127.0.0.1/{id}", hosts: 127.0.0.1, allow_plain_http: yes}
`;

const read: readonly ExtPillarEntry[] = [
  { module: 'minion_files', directory: '/srv/a' },
  { module: 'minion_files', directory: '/srv/b', maxBytes: 100 },
  {
    module: 'minion_http',
    url: 'https://cmdb.test:8443/pillar/{id}',
    hosts: ['cmdb.test:8443'],
    headers: { authorization: 'Bearer planted' },
    timeout: 2.5,
    format: 'yaml',
  },
  {
    module: 'minion_http',
    url: 'http://127.0.0.1/{id}',
    hosts: ['127.0.0.1'],
    allowPlainHttp: true,
  },
];

async function load(t: ExecutionContext, master: string) {
  return loadMasterConfig(configDirectory(t, { master }));
}

test('sources are read in their order, and a program gives them as they were read', async (t) => {
  const { config, warnings } = await load(t, written);
  t.deepEqual(config.extPillar, read);
  t.deepEqual(warnings, []);
  t.deepEqual(resolveMasterConfig({ extPillar: read }).extPillar, read);
});

test('headers are told to nobody who reads the options', async (t) => {
  const { config } = await load(t, written);
  t.false(JSON.stringify(saltValues(config)).includes('planted'));
});

/** [salt/pillar/ of 3007, by the names that ext_pillar calls them by] */
const saltsOwn =
  'cmd_json cmd_yaml cmd_yamlex cobbler confidant consul csv digicert django_orm ec2_pillar etcd ' +
  'extra_minion_data_in_pillar file_tree foreman git gpg hg hiera http_json http_yaml libvirt ' +
  'makostack mongo mysql nacl neutron netbox nodegroups pepa pillar_ldap postgres puppet reclass ' +
  'redis rethinkdb s3 saltclass sql_base sqlcipher sqlite3 stack svn varstack vault venafi ' +
  'virtkey vmware';

test("each of Salt's own modules is refused by name, with what to do instead", async (t) => {
  for (const name of saltsOwn.split(' ')) {
    const { config, warnings } = await load(t, `ext_pillar:\n  - ${name}: [secret]\n`);
    t.deepEqual(config.extPillar, [], name);
    const [{ kind, line, message } = { kind: '', line: 0, message: '' }, ...others] = warnings;
    t.deepEqual([kind, line, others], ['not-served', 1, []], name);
    t.true(message.endsWith(`: ext_pillar: ${name} is not served: ${extPillarAdvice(name)}`), name);
    t.regex(String(extPillarAdvice(name)), / /);
  }
});

test('a module that nobody has is named too, and the others are asked', async (t) => {
  const { config, warnings } = await load(
    t,
    'ext_pillar: [{minion_fils: /x}, {git: [a], minion_files: /srv/a}]\n',
  );
  t.deepEqual(config.extPillar, read.slice(0, 1));
  const [first, second] = warnings.map(({ message }) => message);
  t.regex(String(first), /minion_fils is none of the modules that are served/);
  t.regex(String(second), /git is not served/);
});

for (const [what, value] of Object.entries({
  'no list': '{minion_files: /srv/a}',
  'a list of names': '[minion_files]',
  'a map of nothing': '[{}]',
  'a relative directory': '[{minion_files: srv}]',
  'a directory of which nothing is said': '[{minion_files: {max_bytes: 1}}]',
  'an option that it does not have': '[{minion_files: {directory: /srv/a, recurse: true}}]',
  'an address without hosts': '[{minion_http: {url: "https://a.test/{id}"}}]',
  'a host that is not listed': '[{minion_http: {url: "https://a.test/{id}", hosts: [b.test]}}]',
  'no encryption': '[{minion_http: {url: "http://a.test/{id}", hosts: [a.test]}}]',
  'a password in the address': '[{minion_http: {url: "https://u:p@a.test/{id}", hosts: [a.test]}}]',
  'a host of the id': '[{minion_http: {url: "https://{id}/", hosts: [id]}}]',
  'a header over two lines':
    '[{minion_http: {url: "https://a.test/{id}", hosts: [a.test], headers: {a: "b\\nc"}}}]',
})) {
  test(`${what} keeps the master from starting, and the line is told`, async (t) => {
    const error = await t.throwsAsync(load(t, `timeout: 5\next_pillar: ${value}\n`), {
      instanceOf: ConfigError,
      code: 'ERR_OPTION_TYPE',
    });
    t.like(error, { line: 2, key: 'ext_pillar' });
  });
}

test('a program is refused a module that is not served', (t) => {
  const extPillar: unknown = [{ module: 'git', directory: '/srv/a' }];
  const options = { extPillar } as { extPillar: readonly ExtPillarEntry[] };
  t.throws(() => resolveMasterConfig(options), { code: 'ERR_OPTION_TYPE' });
});
