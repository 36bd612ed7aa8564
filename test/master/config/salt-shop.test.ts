/**
 * Tests of options of Salt sites from files: git repositories, the schedule, and exported events.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'ava';
import {
  gitfsRemotesOf,
  gitPillarRemotesOf,
  listOptions,
  loadMasterConfig,
  readSchedule,
  saltValues,
} from '#config';
import { readConfigDirectory } from '#config/read-config.ts';

const file = `
fileserver_backend: [roots, git, s3fs]
gitfs_base: main
gitfs_password: secret-1
gitfs_user: me
gitfs_saltenv:
  - prod:
      - ref: release
gitfs_remotes:
  - https://git.example.org/states.git
  - https://me:secret-2@git.example.org/formula.git:
      - root: salt
      - mountpoint: salt://formulas
      - base: master
      - password: secret-3
      - saltenv:
          - dev:
              - ref: develop
              - root: x
  - git@git.example.org:user/states.git:
      root: sub
ext_pillar:
  - git:
      - main https://git.example.org/pillar.git:
          - env: base
          - root: pillar
      - __env__ git@git.example.org:p.git
schedule:
  refresh: {function: fileserver.update, kwargs: {a: secret-5}, minutes: 5, returner: mysql}
saltbridge:
  git: {protocols: [https, ssh], known_hosts: /etc/known_hosts}
  event_export:
    - name: siem
      webhook: https://siem.example.org/salt
      headers: {authorization: secret-4}
      match: ['salt/auth']
`;

function directory(content: string): string {
  const place = mkdtempSync(path.join(tmpdir(), 'sb-shop-'));
  writeFileSync(path.join(place, 'master'), content);
  return place;
}

test('parameters of a remote take precedence over those of all', async (t) => {
  const { config, warnings } = await loadMasterConfig(directory(file));
  t.deepEqual(config.fileserverBackend, ['roots', 'gitfs']);
  const [first, second, third] = gitfsRemotesOf(config);
  t.like(first, { base: 'main', root: '', access: { user: 'me', password: 'secret-1' } });
  t.like(second, { base: 'master', root: 'salt', access: { password: 'secret-3' } });
  t.deepEqual([...(second?.saltenv.keys() ?? [])], ['prod', 'dev']);
  t.like(third, { root: 'sub', access: { url: 'git@git.example.org:user/states.git' } });
  const [entry] = config.extPillar;
  const pillar = entry?.module === 'git' ? gitPillarRemotesOf(entry.remotes, config) : [];
  t.like(pillar[0], { branch: 'main', env: 'base', root: 'pillar' });
  t.like(pillar[1], { branch: '__env__', env: '__env__' });
  t.is(readSchedule(config.schedule)[0]?.fun, 'fileserver.update');
  t.is(config.eventExport[0]?.name, 'siem');
  t.deepEqual(
    warnings.map(({ message }) => message.replace(/^.*?:\d+: /, '')),
    [
      'fileserver_backend: s3fs is not supported: the file server supports the backends roots and gitfs',
      'schedule: refresh: returner has no effect in the master',
    ],
  );
});

test('a receiver has the options of its kind, and a NATS server has a name', async (t) => {
  const load = (more: string) =>
    loadMasterConfig(directory(`saltbridge: {event_export: [{name: bus, ${more}}]}\n`));
  const { config } = await load('nats: tls://nats.example.org, nkey_file: /k, jetstream: false');
  t.deepEqual(config.eventExport, [
    {
      name: 'bus',
      nats: ['tls://nats.example.org'],
      subject: 'salt.event',
      nkeyFile: '/k',
      jetstream: false,
    },
  ]);
  for (const more of [
    'nats: tls://192.0.2.1',
    'nats: "tls://[2001:db8::1]:4222"',
    'nats: nats://nats.example.org',
    'nats: tls://user:secret@nats.example.org',
    'nats: []',
    'nats: tls://a, subject: "salt.>"',
    'nats: tls://a, cert_file: /c',
    'nats: tls://a, credentials_file: /c, nkey_file: /k',
    'nats: tls://a, file: /f',
    'nats: tls://a, headers: {a: b}',
    'webhook: https://a, jetstream: true',
    'file: /f, timeout: 1',
  ]) {
    await t.throwsAsync(load(more), { message: /event_export/ }, more);
  }
});

test('no password of a repository or header of a webhook is shown', async (t) => {
  const shown = JSON.stringify(listOptions(await readConfigDirectory(directory(file))));
  t.true(shown.includes('git.example.org/formula.git'));
  t.notRegex(shown, /secret-[1-4]/);
  const { config } = await loadMasterConfig(directory(file));
  t.notRegex(JSON.stringify(saltValues(config)), /secret-/);
});

test('passwords over http, and remotes without a backend, are reported', async (t) => {
  const plain = 'gitfs_remotes: [{"http://a.test/x": [{user: a}, {password: b}]}]\n';
  const loading = loadMasterConfig(directory(`fileserver_backend: [gitfs]\n${plain}`));
  await t.throwsAsync(loading, {
    code: 'ERR_OPTION_TYPE',
    message: /a password would be sent over http/,
  });
  const { warnings } = await loadMasterConfig(directory(plain));
  t.regex(String(warnings[0]?.message), /gitfs_remotes has no effect/);
});
