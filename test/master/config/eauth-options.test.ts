import test from 'ava';
import { loadMasterConfig, resolveMasterConfig } from '../../../master/index.ts';
import { configDirectory } from './files.ts';

test('options of log-ins are read under the names that Salt gives them', async (t) => {
  const master = [
    'token_expire: 600',
    'token_expire_user_override: {pam: [fred]}',
    'sharedsecret: 12345',
    'auth.pam.service: other',
    'auth.ldap.server: ldap.example.org',
    "auth.ldap.port: '636'",
    'auth.ldap.tls: True',
    'auth.ldap.binddn: cn=salt,dc=example,dc=org',
    'auth.ldap.bindpw: secret',
    "auth.ldap.filter: '(uid={{ username }})'",
    "auth.ldap.groupou: ''",
    'external_auth:',
    '  ldap: {fred: [test.ping]}',
    '  pam: {fred: [test.ping]}',
    '',
  ].join('\n');
  const { config, warnings } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(warnings, []);
  t.like(config.eauth, {
    tokenExpire: 600,
    tokenExpireUserOverride: { pam: ['fred'] },
    sharedsecret: '12345',
    pamService: 'other',
    ldapServer: 'ldap.example.org',
    ldapPort: 636,
    ldapTls: true,
    ldapGroupou: '',
  });
});

test('what lets nobody log in is told at its place, and refuses no start', async (t) => {
  const master = 'external_auth:\n  django: {}\n  auto: {fred: [.*]}\n  file: {fred: [.*]}\n';
  const { warnings } = await loadMasterConfig(configDirectory(t, { master }));
  const told = warnings.filter(({ message }) => message.includes('nobody can log in by it'));
  t.deepEqual(
    told.map(({ line, key }) => [line, key]),
    [
      [2, 'external_auth:django'],
      [3, 'external_auth:auto'],
      [4, 'external_auth:file'],
    ],
  );
});

test('a value that is no service, no life and no list of users is refused', (t) => {
  const wrong = [
    { pamService: '../other' },
    { tokenExpire: 0 },
    { tokenExpireUserOverride: { pam: [{}] } as never },
    { ldapScope: 3 },
  ];
  for (const eauth of wrong) {
    t.throws(() => resolveMasterConfig({ eauth }), { code: 'ERR_OPTION_TYPE' });
  }
});
