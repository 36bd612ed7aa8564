/** `saltbridge heat`, `saltbridge bridge data` and `saltbridge metadata-agent`. */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { ExtensionClient } from '#client';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { runCli } from './run-cli.ts';

function fileWith(t: ExecutionContext, content: string): string {
  const file = path.join(temporaryDirectory(t), 'file');
  writeFileSync(file, content);
  return file;
}

/** Returns a bridge with an answer for each method, and its calls. */
function fakeBridge(answers: Readonly<Record<string, (parameters: object) => unknown>>): {
  readonly calls: (readonly [method: string, parameters: object])[];
  readonly options: { readonly openExtension: () => Promise<ExtensionClient> };
} {
  const calls: (readonly [string, object])[] = [];
  const client: ExtensionClient = {
    call: async (method, parameters = {}) => {
      calls.push([method, parameters]);
      // The answer has the type that the command expects.
      return answers[method]?.(parameters) as never;
    },
    stream: () => {
      throw new TypeError('not foreseen');
    },
  };
  return { calls, options: { openExtension: async () => client } };
}

const template = `heat_template_version: 2018-08-31
resources:
  db:
    type: OS::Nova::Server
    metadata: { saltbridge: { writes: { password: { secret: true }, motd: } } }
  app:
    type: OS::Nova::Server
    metadata: { saltbridge: { reads: { pw: db/password } } }
`;

test('a template is compiled, prepared, and becomes an environment of Heat', async (t) => {
  const file = fileWith(t, template);
  const plain = await runCli(['heat', 'compile', file]);
  t.is(plain.code, 0);
  t.regex(plain.stdout, /user_data: \{ ?get_param: "saltbridge_user_data_app" ?\}|get_param: "sa/);
  t.is(plain.stderr, 'no role reads the value db/motd, so the compiled template omits it\n');
  const picture = await runCli(['heat', 'compile', file, '--print', 'picture']);
  t.regex(picture.stdout, /r0 -->\|"db\/password \(secret\)"\| r1/);
  const svg = await runCli(['heat', 'compile', file, '--picture', 'svg']);
  t.regex(svg.stdout, /^<svg .*<text [^>]*>db\/password \(secret\)<\/text>.*<\/svg>\n$/s);
  const both = await runCli(['heat', 'compile', file, '--picture', 'svg', '--print', 'roles']);
  t.is(both.code, 64);
  const roles = await runCli(['heat', 'compile', file, '--print', 'roles', '--format', 'shell']);
  const { calls, options } = fakeBridge({
    'enroll.create': (parameters) => ({ userData: `for ${JSON.stringify(parameters)}` }),
  });
  const args = ['heat', 'prepare', fileWith(t, roles.stdout), '--stack', 'shop'];
  const prepared = await runCli([...args, '--project', 'p1', '--owner', 'p1'], options);
  t.is(prepared.code, 0, prepared.stderr);
  const { parameters } = JSON.parse(prepared.stdout);
  t.deepEqual(Object.keys(parameters), ['saltbridge_user_data_db', 'saltbridge_user_data_app']);
  t.regex(parameters.saltbridge_user_data_app, /"id":"app\.shop","project":"p1","format":"shell"/);
  t.deepEqual(
    calls.map(([method]) => method),
    ['data.add', 'enroll.create', 'enroll.create'],
  );
  t.like(calls[0]?.[1], {
    owner: 'p1',
    registration: {
      name: 'shop',
      roles: { db: { minions: ['db.shop'] }, app: { minions: ['app.shop'] } },
    },
  });
});

test('every problem of a template has a line, and nothing is asked of a master', async (t) => {
  const text = template.replace('pw: db/password', 'a: db/nothing, b: nobody/x');
  const { code, stdout, stderr } = await runCli(['heat', 'compile', fileWith(t, text)]);
  t.is(code, 64);
  t.is(stdout, '');
  t.deepEqual(stderr.trimEnd().split('\n'), [
    'the role app reads db/nothing, but the role db does not write "nothing"',
    'the role app reads nobody/x, but there is no role "nobody"; roles are db, app',
  ]);
});

test('roles that heat compile did not print are refused', async (t) => {
  const { calls, options } = fakeBridge({});
  for (const content of ['[', '{}', '{"format": "cloud-init", "roles": {}, "machines": [{}]}']) {
    const args = ['heat', 'prepare', fileWith(t, content), '--stack', 's', '--project', 'p'];
    t.is((await runCli(args, options)).code, 64, content);
  }
  t.deepEqual(calls, []);
});

test('data spaces are added, listed, shown and removed', async (t) => {
  const info = {
    name: 'shop',
    id: '1',
    owner: 'p1',
    roles: { db: ['db-1'] },
    keys: 2,
    registeredAt: 0,
  };
  const values = [
    { key: 'db/a', writer: 'db', readers: ['app'], secret: true, versioned: true, bytes: 7 },
    { key: 'db/b', writer: 'db', readers: [], secret: false, versioned: false },
  ];
  const { calls, options } = fakeBridge({
    'data.add': () => info,
    'data.list': () => [info],
    'data.show': () => ({ ...info, values }),
    'data.remove': () => info,
  });
  const line = 'shop: 2 values, roles db (db-1), of p1\n';
  const file = fileWith(t, '{"roles": {}}');
  const added = await runCli(['bridge', 'data', 'add', 'shop', file, '--replace'], options);
  t.is(added.stdout, line);
  t.is((await runCli(['bridge', 'data', 'list'], options)).stdout, line);
  const shown = await runCli(['bridge', 'data', 'show', 'shop', '--owner', 'p1'], options);
  t.is(
    shown.stdout,
    `${line}db/a (secret, versioned): 7 bytes, read by app\ndb/b: not written, read by no role\n`,
  );
  t.is((await runCli(['bridge', 'data', 'remove', 'shop'], options)).code, 0);
  t.deepEqual(calls, [
    ['data.add', { registration: { roles: {}, name: 'shop' }, replaces: true }],
    ['data.list', {}],
    ['data.show', { name: 'shop', owner: 'p1' }],
    ['data.remove', { name: 'shop' }],
  ]);
  t.is((await runCli(['bridge', 'data', 'add', 'x', fileWith(t, '[]')], options)).code, 64);
});

test('a metadata agent does not start with a file that cannot be', async (t) => {
  const file = fileWith(t, 'socket: /run/s\nnova: { url: "ftp://x", secret_file: s }\n');
  const { code, stderr } = await runCli(['metadata-agent', '--config', file]);
  t.is(code, 78);
  t.regex(stderr, /^saltbridge: /);
  t.is((await runCli(['metadata-agent'])).code, 64);
});
