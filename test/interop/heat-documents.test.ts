/**
 * Follows docs/signals.md and docs/deployments.md from the beginning to a complete stack: with
 * `openstack`, `saltbridge` and `salt-call`, a real Heat and real minions.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import { loadSaltConfig } from '#config';
import { createSilentLogger } from '#master';
import { createMinion, createMinionKeys, dialZeromq } from '#minion-protocol';
import { serve } from '#server';
import { freePort } from '../../bench/free-port.ts';
import { blocksRunBy, type CodeBlock, codeBlocks, linesOf } from '../helpers/markdown.ts';
import { testWhere } from '../helpers/needs.ts';
import { Shell } from '../helpers/shell.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { eventually } from './eventually.ts';
import { askAboutStack, cloud, services } from './heat-cloud.ts';
import { minionPrograms } from './programs.ts';
import { RealMinion } from './real-minion.ts';

const program = fileURLToPath(new URL('../../bin/saltbridge', import.meta.url));
const hasOpenstack = spawnSync('openstack', ['--version']).error === undefined;
const isThere = cloud !== undefined && minionPrograms.length > 0 && hasOpenstack;
const withCloud = testWhere(
  isThere,
  'HEAT_ENV, SALT_MINION and the package python3-openstackclient',
);

interface Site {
  readonly shell: Shell;
  readonly folder: string;
  readonly requestPort: number;
  readonly publishPort: number;
}

/**
 * Starts a master with the configuration of both documents, and a shell in which `saltbridge` and
 * `openstack` work.
 */
async function startSite(t: ExecutionContext): Promise<Site> {
  const folder = temporaryDirectory(t);
  const [requestPort, publishPort] = [await freePort(), await freePort()];
  mkdirSync(path.join(folder, 'etc/commands'), { recursive: true });
  mkdirSync(path.join(folder, 's'), { mode: 0o700 });
  const yaml = (document: string, mark: string): string =>
    codeBlocks(document).find(({ language, text }) => language === 'yaml' && text.includes(mark))
      ?.text ?? '';
  const endpoints = services().map((url) => new URL(url).origin);
  const options = (document: string): string =>
    yaml(document, 'endpoints:')
      .replace(/^ +- https:.*\n/gm, '')
      .replace('endpoints:', `endpoints: ${JSON.stringify(endpoints)}`);
  const files = {
    'etc/master': `root_dir: ${folder}
interface: 127.0.0.1
ret_port: ${requestPort}
publish_port: ${publishPort}
sock_dir: ${folder}/s
auto_accept: true
`,
    'etc/master.d/signals.conf': options('docs/signals.md'),
    'etc/master.d/deployments.conf': options('docs/deployments.md'),
    'etc/commands/mysql.yaml': yaml('docs/bridge.md', 'mysql.create-database'),
    'wait.yaml': yaml('docs/signals.md', 'heat_template_version'),
    'web.yaml': yaml('docs/deployments.md', 'heat_template_version'),
  };
  mkdirSync(path.join(folder, 'etc/master.d'));
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text);
  const config = await loadSaltConfig(path.join(folder, 'etc'));
  const server = await serve({ config, logger: createSilentLogger() });
  t.teardown(() => server.close());
  const { keystone = '', users } = cloud ?? {};
  const { id = '', password = '', project_id = '' } = users?.demo ?? {};
  const shell = new Shell(t, folder, {
    PATH: process.env.PATH,
    HOME: folder,
    OS_AUTH_URL: keystone,
    OS_IDENTITY_API_VERSION: '3',
    OS_USER_ID: id,
    OS_PASSWORD: password,
    OS_PROJECT_ID: project_id,
  });
  await shell.type(`saltbridge() { ${process.execPath} ${program} "$@" -c ${folder}/etc; }`);
  return { shell, folder, requestPort, publishPort };
}

async function typeLines(
  t: ExecutionContext,
  { shell }: Site,
  { document, line }: CodeBlock,
  lines: readonly string[],
): Promise<string> {
  const { failures, output } = await shell.type(lines.join('\n'), 120_000);
  t.deepEqual(failures, [], `${document}:${line}\n${output}`);
  return output;
}

async function outputOf(name: string, key: string): Promise<string> {
  const { stack } = await askAboutStack('GET', `/stacks/${name}`);
  const found = stack.outputs?.find(({ output_key }) => output_key === key)?.output_value ?? 'null';
  return typeof found === 'string' ? found : JSON.stringify(found);
}

async function endOf(name: string): Promise<{ readonly status: string; readonly reason: string }> {
  let status = '';
  let reason = '';
  await eventually(
    `the end of ${name}`,
    async () => {
      const { stack } = await askAboutStack('GET', `/stacks/${name}`);
      ({ stack_status: status, stack_status_reason: reason } = stack);
      return status !== 'CREATE_IN_PROGRESS';
    },
    120_000,
    1000,
  );
  return { status, reason };
}

/** Returns a unique name for a stack, which is deleted at the end. */
function newStack(t: ExecutionContext, name: string): string {
  const own = `${name}-${randomBytes(4).toString('hex')}`;
  t.teardown(() => askAboutStack('DELETE', `/stacks/${own}`).catch(() => {}));
  return own;
}

withCloud('docs/signals.md leads to a complete stack, and to a failed one', async (t) => {
  t.timeout(300_000);
  const site = await startSite(t);
  const [first = '', last = first] = [minionPrograms[0], minionPrograms.at(-1)];
  const minions = await Promise.all(
    Object.entries({ db1: first, db2: last }).map(([name, each]) =>
      RealMinion.create({ ...site, program: each, name }),
    ),
  );
  for (const minion of minions) {
    t.teardown(() => minion.dispose());
    minion.start();
  }
  const [one, two] = minions;
  const blocks = blocksRunBy('test/interop/heat-documents.test.ts', 'docs/signals.md');
  t.is(blocks.length, 3);
  const [register, succeed, fail] = blocks;
  if (one === undefined || two === undefined) return;
  if (register === undefined || succeed === undefined || fail === undefined) return;

  const open = async (): Promise<string> => {
    const name = newStack(t, 'demo');
    const [create = '', add = ''] = linesOf(register).map((line) =>
      line.replaceAll('demo', name).replace('db1 db2', `${one.id} ${two.id}`),
    );
    await typeLines(t, site, register, [create]);
    const isMade = async (): Promise<boolean> => (await outputOf(name, 'signal')).startsWith('{');
    await eventually('the handle', isMade, 60_000, 500);
    await typeLines(t, site, register, [add]);
    return name;
  };
  const call = async (minion: RealMinion, block: CodeBlock): Promise<void> => {
    const directory = path.dirname(minion.id === one.id ? first : last);
    const there = `salt-call() { ${directory}/salt-call -c ${minion.directory}/etc "$@"; }`;
    await typeLines(t, site, block, [there, ...linesOf(block)]);
  };
  const name = await open();
  for (const minion of minions) await call(minion, succeed);
  t.is((await endOf(name)).status, 'CREATE_COMPLETE');
  t.deepEqual(JSON.parse(await outputOf(name, 'data')), {
    [one.id]: { port: 3306 },
    [two.id]: { port: 3306 },
  });

  await typeLines(t, site, register, ['saltbridge bridge handle remove db-ready']);
  const failing = await open();
  await call(one, fail);
  const { status, reason } = await endOf(failing);
  t.is(status, 'CREATE_FAILED');
  t.true(reason.includes('disk full'), reason);
});

withCloud('docs/deployments.md leads to a deployment that has run', async (t) => {
  t.timeout(300_000);
  const site = await startSite(t);
  const minion = createMinion({
    id: 'web1',
    keys: await createMinionKeys(),
    transport: dialZeromq({ host: '127.0.0.1', requestPort: site.requestPort }),
    functions: { 'mysql.db_create': ({ kwargs: { name } }) => name === 'shop' },
  });
  t.teardown(() => minion.stop());
  await minion.start();
  const [block] = blocksRunBy('test/interop/heat-documents.test.ts', 'docs/deployments.md');
  if (block === undefined) return t.fail('no block');
  const name = newStack(t, 'web');
  const credential = `saltbridge-${name}`;
  const [create = '', authorize = '', ...rest] = linesOf(block).map((line) =>
    line.replace(/ web$/, ` ${name}`).replace('saltbridge-web', credential),
  );
  await typeLines(t, site, block, [create]);
  const made = await typeLines(t, site, block, [authorize]);
  const { id, secret } = JSON.parse(/^\{.*?^\}/ms.exec(made)?.[0] ?? '{}');
  const [json] = codeBlocks('docs/deployments.md').filter(({ language }) => language === 'json');
  const registration = JSON.parse(json?.text ?? '{}');
  const { stack } = await askAboutStack('GET', `/stacks/${name}`);
  const login = {
    auth_url: cloud?.keystone,
    application_credential_id: id,
    application_credential_secret: secret,
  };
  const own = { ...registration, stack: `${name}/${stack.id}`, login };
  writeFileSync(path.join(site.folder, 'stack.json'), JSON.stringify(own), { mode: 0o600 });
  const remaining = rest.map((line) => line.replace(` ${name}`, ' web'));
  t.regex(await typeLines(t, site, block, remaining), /web/);
  const { status, reason } = await endOf(name);
  t.is(status, 'CREATE_COMPLETE', reason);
  t.is((await outputOf(name, 'database')).toLowerCase(), 'true');
  await typeLines(t, site, block, [`openstack application credential delete ${credential}`]);
});
