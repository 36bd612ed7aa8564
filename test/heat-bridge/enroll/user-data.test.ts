/** User-data and the programs that read it: cloud-init, if it is installed, and a shell. */

import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { parse } from 'yaml';
import type { EnrolRequest } from '#heat-bridge';
import { renderMultipart } from '#heat-bridge/enroll/mime-multipart.ts';
import { requireWritable, UserDataWriter } from '#heat-bridge/enroll/user-data.ts';
import { tries } from '../../helpers/effort.ts';
import { testWhere } from '../../helpers/needs.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const certificate = readFileSync(
  new URL('../../../test/fixtures/tls/master.pem', import.meta.url),
  'utf8',
);
const finger = 'aa:bb:cc';
const writer = new UserDataWriter({
  masters: ['192.0.2.1'],
  requestPort: 4506,
  fingerprint: finger,
  hashType: 'sha256',
  transport: 'zeromq',
  server: { url: 'https://192.0.2.1:8080', certificate },
});
const keys = { privatePem: 'PRIVATE\nHALF\n', publicPem: 'PUBLIC\nHALF\n' };
const ticket = 'sbt1.AAAA.BBBB';

function write(more: Partial<EnrolRequest> = {}): string {
  const request: EnrolRequest = { id: 'web-1', project: 'p', ...more };
  const pair = request.by === 'keys' ? keys : undefined;
  requireWritable(request);
  return writer.write(request, { ticket, keys: pair });
}

/**
 * Parses messages with Python's MIME parser, which cloud-init uses. Returns the type and content of
 * each part of each message.
 */
function readMessages(messages: readonly string[]): [string, string][][] {
  const program = `
import email, json, sys
def read(message):
    parts = [p for p in email.message_from_bytes(message.encode()).walk() if not p.is_multipart()]
    return [[p.get_content_type(), p.get_payload(decode=True).decode()] for p in parts]
print(json.dumps([read(message) for message in json.load(sys.stdin)]))`;
  const input = JSON.stringify(messages);
  return JSON.parse(execFileSync('python3', ['-c', program], { input, encoding: 'utf8' }));
}

function readParts(message: string): [string, string][] {
  return readMessages([message])[0] ?? [];
}

function contentOf(message: string, type: string): string {
  return readParts(message).find(([it]) => it === type)?.[1] ?? '';
}

function run(program: string, args: readonly string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  return { status, output: `${stdout}${stderr}` };
}

function asFile(t: ExecutionContext, content: string): string {
  const file = path.join(temporaryDirectory(t), 'file');
  writeFileSync(file, content);
  return file;
}

const hasCloudInit = spawnSync('cloud-init', ['--version']).status === 0;
const ifCloudInit = testWhere(hasCloudInit, 'the package cloud-init');

for (const by of ['claim', 'keys', 'grain'] as const) {
  ifCloudInit(`cloud-init's schema accepts the cloud-config of an enrolment by ${by}`, (t) => {
    const config = contentOf(write({ by, grains: { role: ['web'] } }), 'text/cloud-config');
    const { status, output } = run('cloud-init', ['schema', '-c', asFile(t, config)]);
    t.is(status, 0, output);
    t.regex(output, /^Valid cloud-config/);
  });

  test(`a shell parses the scripts of an enrolment by ${by} without errors`, (t) => {
    const alone = write({ by, format: 'shell', instance: 'i-1', grains: { role: 'web' } });
    const besideModule = contentOf(write({ by }), 'text/x-shellscript');
    for (const script of [alone, besideModule]) {
      t.deepEqual(run('sh', ['-n', asFile(t, script)]), { status: 0, output: '' });
    }
  });
}

test('the minion gets one id, its master, and the means to verify the master', (t) => {
  const more = { config: { master: 'evil', id: 'other', master_finger: '', log_level: 'debug' } };
  const config = contentOf(write(more), 'text/cloud-config');
  t.like(parse(config).salt_minion.conf, {
    id: 'web-1',
    master: '192.0.2.1',
    master_finger: finger,
    log_level: 'debug',
  });
});

test('several masters are all named, and a single master is not a list', (t) => {
  const several = new UserDataWriter({
    masters: ['192.0.2.1', '192.0.2.2'],
    requestPort: 14_506,
    fingerprint: finger,
    hashType: 'sha512',
    transport: 'tcp',
    server: { url: 'https://192.0.2.1', certificate },
  });
  const request = { id: 'web-1', project: 'p' };
  const config = contentOf(
    several.write(request, { ticket, keys: undefined }),
    'text/cloud-config',
  );
  t.like(parse(config).salt_minion.conf, {
    master: ['192.0.2.1', '192.0.2.2'],
    master_type: 'failover',
    master_port: 14_506,
    hash_type: 'sha512',
    transport: 'tcp',
  });
});

test('options and grains with too many values or characters are refused', (t) => {
  const map = (size: number) => Object.fromEntries(Array.from({ length: size }, (_, i) => [i, 1]));
  const tooLarge = {
    code: 'ERR_ENROLL_ARGS',
    message: /`config` and `grains` contain more than 1000/,
  };
  for (const more of [
    { config: { schedule: map(1000) } },
    { config: { schedule: map(500) }, grains: { roles: map(500) } },
    { grains: { role: 'x'.repeat(70_000) } },
    { config: { beacons: { ['x'.repeat(70_000)]: [] } }, format: 'none' as const },
  ]) {
    t.throws(() => write(more), tooLarge);
  }
  t.notThrows(() => write({ config: { schedule: map(400) }, grains: { roles: map(400) } }));
});

test('the ticket is a grain only if it is configured to be one', (t) => {
  const grain = parse(contentOf(write({ by: 'grain' }), 'text/cloud-config')).salt_minion;
  t.deepEqual(grain.grains, { saltbridge_ticket: ticket });
  t.deepEqual(grain.conf.autosign_grains, ['saltbridge_ticket']);
  for (const by of ['claim', 'keys'] as const) {
    t.false(contentOf(write({ by }), 'text/cloud-config').includes(ticket), by);
  }
});

test('only the machine with a given pair gets a private key', (t) => {
  const formats = ['cloud-init', 'shell', 'cloudbase-init'] as const;
  const encoded = Buffer.from(keys.privatePem).toString('base64');
  const holds = (text: string): boolean => text.includes('PRIVATE') || text.includes(encoded);
  for (const format of formats) {
    t.true(holds(write({ by: 'keys', format })), format);
    t.false(holds(write({ by: 'claim', format })), format);
  }
});

test('existing user data of the service is preserved, in each format', (t) => {
  const config = '#cloud-config\nhostname: web-1\n';
  const script = '#!/bin/sh\necho grüß gott\n';
  const message = renderMultipart([
    { type: 'text/cloud-config', name: 'a', content: config },
    { type: 'text/x-shellscript', name: 'b', content: script },
  ]);
  for (const [beside, expected] of [
    [config, [config]],
    [script, [script]],
    [message, [config, script]],
  ] as const) {
    const parts = readParts(write({ beside }));
    t.deepEqual(
      parts.slice(0, -2).map(([, content]) => content),
      expected,
    );
    t.deepEqual(
      parts.slice(-2).map(([type]) => type),
      ['text/cloud-config', 'text/x-shellscript'],
    );
  }
});

const ours = '#cloud-config\nsalt_minion:\n  conf: { log_level: debug }\n';
const messageWithOurs = renderMultipart([
  { type: 'text/plain', name: 'a', content: 'x' },
  { type: 'text/cloud-config', name: 'b', content: `${ours}# ä: sent as base64\n` },
]);

for (const [what, beside] of [
  ['a cloud-config', ours],
  ['JSON', '#cloud-config\n{"salt_minion": {"conf": {"log_level": "debug"}}}'],
  ['a template', `## template: jinja\n${ours}{% if v1 %}\nx: 1\n{% endif %}\n`],
  [
    'an archive',
    '#cloud-config-archive\n- type: text/cloud-config\n  content: "salt_minion: {}"\n',
  ],
  ['a cloud-config with quoted text', `#cloud-config\n"salt_minion" : {}\n`],
  ['a cloud-config with escaped text', '#cloud-config\na: 1\n"s\\u0061lt\\x5Fminion": {}\n'],
  ['an indented cloud-config', '#cloud-config\n# a\n\n---\n  a: 1\n  salt_minion: {}\n'],
  ['a cloud-config with aliases', '#cloud-config\na: &a salt_minion\n*a : {}\n'],
  ['a cloud-config that merges maps', '#cloud-config\na: &a {salt_minion: {}}\n<<: *a\n'],
  ['a patch', '#cloud-config-jsonp\n[{"op": "add", "path": "/salt_minion", "value": {}}]'],
  ['a message', messageWithOurs],
  [
    'a quoted-printable part',
    'Content-Type: text/cloud-config\nContent-Transfer-Encoding: quoted-printable\n\nsalt_=\n=6Dinion: =7B}\n',
  ],
  [
    'a message in a message',
    renderMultipart([{ type: 'text/plain', name: 'c', content: '' }], messageWithOurs),
  ],
] as const) {
  test(`user-data that configures the minion itself is refused: ${what}`, (t) => {
    t.throws(() => write({ beside }), {
      code: 'ERR_ENROLL_ARGS',
      message: /section `salt_minion`.*`config` and `grains`/,
    });
  });
}

test('user-data that only mentions salt_minion is merged, and data that is not text is refused', (t) => {
  const config =
    '#cloud-config\nwrite_files: [{path: /a, content: "salt_minion: x"}]\n# salt_minion: y\n';
  const several =
    '#cloud-config\n---\nruncmd:\n- echo salt_minion: "\\x41"\n- [ls,\n  a\n]\n"b c": |\n  salt_minion: x\n';
  const json = '#cloud-config\n{"write_files": [{"path": "/a", "content": "gr\\u00fc\\u00df\\n"}]}';
  for (const beside of [config, several, json, '#!/bin/sh\necho salt_minion: x\n']) {
    t.is(readParts(write({ beside }))[0]?.[1], beside);
  }
  t.throws(() => write({ beside: '\x1f\ufffd\b\0' }), { message: /not text/ });
  t.throws(() => write({ beside: config, format: 'none' }), { message: /format `none`/ });
});

test('any content of a part arrives unchanged', (t) => {
  const line = fc.oneof(
    fc.string({ maxLength: 80, unit: 'grapheme' }),
    fc.constant('--=='),
    fc.constant(''),
  );
  const content = fc
    .array(line, { minLength: 1, maxLength: 6 })
    .map((lines) => `#!/bin/sh\n${lines.join('\n')}`);
  fc.assert(
    // All in one property, because the start of Python takes most of the time.
    fc.property(fc.array(content, { minLength: 15, maxLength: 15 }), (contents) => {
      const messages = contents.map((it) =>
        renderMultipart([{ type: 'text/x-shellscript', name: 'x', content: it }]),
      );
      t.deepEqual(
        readMessages(messages).map(([first]) => first?.[1]),
        contents,
      );
    }),
    tries(1),
  );
});

test('no id, grain or option of a minion is interpreted by a shell or by YAML', (t) => {
  const odd = ["it's", '$(touch /tmp/x)', '`id`', 'no', '12:30', '1e3', '"', '\\', '*a', 'ü', '~'];
  for (const text of odd) {
    const script = write({
      id: text,
      format: 'shell',
      config: { note: text },
      grains: { note: text },
    });
    const upToConfig = script.slice(0, script.indexOf('# post PATH'));
    const shown = run('sh', ['-c', `${upToConfig}\nprintf '%s' "$id_json"`]);
    t.is(JSON.parse(shown.output), text);
    const program = 'import sys, yaml; c = yaml.safe_load(sys.stdin); sys.stdout.write(c["note"])';
    const config = /minion" <<'SALTBRIDGE_END_OF_FILE'[^\n]*\n([\s\S]*?)\nSALTBRIDGE_END/.exec(
      script,
    )?.[1];
    t.is(
      execFileSync('/usr/bin/python3', ['-c', program], { input: config ?? '', encoding: 'utf8' }),
      text,
    );
  }
});
