/** A site's rights of users load with warnings only, each at its place. */
import test from 'ava';
import { rulesOf } from '../../../master/config/policy-rules.ts';
import { loadMasterConfig } from '../../../master/index.ts';
import { configDirectory } from './files.ts';

/** In the manner of public configurations, some 200 lines. */
function siteConfig(): string {
  const teams = Array.from({ length: 10 }, (_, index) => `team${index}`);
  const users = teams.flatMap((team) => [
    `    ${team}-lead:`,
    `      - '${team}-*':`,
    '          - state.apply',
    '          - state.highstate',
    '          - test.*',
    '          - service.restart:',
    '            - args: [nginx|redis]',
    "      - '@jobs'",
    "      - '@runner':",
    '        - manage.up',
    '        - cache.*',
  ]);
  return [
    'publisher_acl:',
    ...teams.flatMap((team) => [
      `  ${team}:`,
      '    - test.ping',
      `    - '${team}*':`,
      '      - pkg.*',
    ]),
    '  .*:',
    '    - test.version',
    'publisher_acl_blacklist:',
    '  users: [root, "^(?!sudo_).*$"]',
    '  modules: [cmd.*, test.echo]',
    'client_acl_verify: True',
    'external_auth:',
    '  pam:',
    ...users,
    '    admins%:',
    '      - .*',
    "      - '@wheel'",
    "      - '@runner'",
    '  ldap:',
    '    "*":',
    '      - test.ping',
    'peer:',
    ...teams.flatMap((team) => [`  ${team}-.*:`, '    - test.ping', '    - network.ip_addrs']),
    'peer_run:',
    '  mon.*: [manage.up]',
    'token_expire: 3600',
    'keep_acl_in_token: True',
    '',
  ].join('\n');
}

test('a site of 200 lines of rights loads with warnings only', async (t) => {
  const text = siteConfig();
  t.true(text.split('\n').length > 195);
  const directory = configDirectory(t, { master: text });
  const { config, warnings } = await loadMasterConfig(directory);
  t.true(rulesOf(config).length > 100);
  const lines = text.split('\n');
  const rights = warnings.filter(({ kind }) => kind === 'rights');
  t.deepEqual(
    rights.map(({ line }) => lines[line - 1]?.trim()),
    ['users: [root, "^(?!sudo_).*$"]', 'admins%:', 'admins%:', 'ldap:'],
  );
  t.deepEqual(
    warnings.filter(({ kind }) => kind === 'not-served'),
    [],
  );
  t.is(config.eauth.tokenExpire, 3600);
});

test('an expression that Salt reads as a beginning is told at its user', async (t) => {
  const master = 'publisher_acl:\n  ann: [test.*]\n  fred: [pkg.list_|pkg.info]\n';
  const { warnings } = await loadMasterConfig(configDirectory(t, { master }));
  t.deepEqual(
    warnings.filter(({ kind }) => kind === 'rights').map(({ line }) => line),
    [3],
  );
});
