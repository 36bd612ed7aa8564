/** Runs the scripts of user-data with a bridge behind TLS. The minion only generates its key. */
import { spawnSync } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { createSaltApi } from '#salt-api';
import { within } from '../../helpers/deadline.ts';
import { testWhere } from '../../helpers/needs.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { pem } from '../../helpers/vectors.ts';
import { ScratchMachine } from './scratch-machine.ts';
import { fingerOf, type Stage, startStage } from './stage.ts';

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url));

/** Whether a program is installed. */
function has(program: string): boolean {
  return spawnSync(program, ['--version']).status === 0;
}

/**
 * Serves a bridge over TLS.
 * @returns the port
 */
async function serve(t: ExecutionContext, { master, bridge }: Stage): Promise<number> {
  const tls = { certificate: fixture('master.pem'), key: fixture('master.key') };
  const api = await createSaltApi(master, { host: '127.0.0.1', tls, plugins: [bridge.http] });
  t.teardown(() => api.close());
  return (await api.listen()).port;
}

/** Creates a machine whose minion uses a key of the recorded vectors, if it generates one. */
function machine(t: ExecutionContext, more: object = {}): ScratchMachine {
  const folder = new ScratchMachine(
    { script: 'mkdir -p "$2/pki/minion"; cp "$0.key" "$2/pki/minion/minion.pub"; exec sleep 60' },
    more,
  );
  writeFileSync(path.join(folder.folder, 'bin', 'salt-minion.key'), pem('minion').publicPem.trim());
  t.teardown(() => folder.dispose());
  return folder;
}

/**
 * Starts a bridge. Its port is known only later, so it is inserted into the user-data afterwards.
 */
async function stageAt(t: ExecutionContext, certificate = 'master.pem'): Promise<[Stage, Filler]> {
  const enroll = { certificate: fixture(certificate), url: 'https://127.0.0.1:1' };
  // A shell would split this id at its spaces if it were not quoted.
  const stage = await startStage(t, enroll, { config: { minionIds: 'salt' } });
  const port = await serve(t, stage);
  return [stage, (userData) => userData.replace('127.0.0.1:1/', `127.0.0.1:${port}/`)];
}

type Filler = (userData: string) => string;

const request = { id: "it's 1", project: 'p', format: 'shell' } as const;

for (const client of ['curl', 'wget'] as const) {
  const found = testWhere(has(client), `the package ${client}`);

  found(`a machine claims with ${client}`, async (t) => {
    const [stage, at] = await stageAt(t);
    const one = machine(t);
    const { userData, enrolment } = await stage.bridge.enroll.create({
      ...request,
      configDir: one.configDir,
    });
    const script = at(userData).replaceAll('command -v curl', `[ ${client} = curl ]`);
    const { status, output } = await one.runShell(script);
    t.is(status, 0, output);
    t.like(await stage.bridge.enroll.show(enrolment.number), {
      state: 'accepted',
      fingerprint: fingerOf('minion'),
    });
  });

  found(`${client} shows the ticket to nobody but the bridge`, async (t) => {
    const [stage, at] = await stageAt(t, 'minion.pem');
    const one = machine(t, { sleep: ':' });
    const { userData, enrolment } = await stage.bridge.enroll.create({
      ...request,
      configDir: one.configDir,
    });
    const script = at(userData).replaceAll('command -v curl', `[ ${client} = curl ]`);
    const { status, output } = await one.runShell(script);
    t.is(status, 1);
    t.regex(output, /does not respond/);
    t.is((await stage.bridge.enroll.show(enrolment.number)).state, 'open');
  });
}

test('a service that does not start is reported with the ticket', async (t) => {
  const [stage, at] = await stageAt(t);
  const one = machine(t, { service: 'echo "no such unit" >&2; exit 5' });
  const { userData, enrolment } = await stage.bridge.enroll.create({
    ...request,
    configDir: one.configDir,
  });
  const failed = stage.bridge.enroll.signedIn(enrolment.number);
  t.is((await one.runShell(at(userData))).status, 1);
  await t.throwsAsync(within('the report', failed), {
    code: 'ERR_ENROLL_FAILED',
    message: 'the service salt-minion failed to start: no such unit',
  });
});

/** Returns the hash of a certificate's key for curl's option `--pinnedpubkey`. */
function pinOf(name: string): string {
  const { publicKey } = new X509Certificate(readFileSync(fixture(name)));
  const key = publicKey.export({ type: 'spki', format: 'der' });
  return `sha256//${createHash('sha256').update(key).digest('base64')}`;
}

test('user-data pins the key of a renewed certificate', async (t) => {
  const certificate = path.join(temporaryDirectory(t), 'certificate.pem');
  const { bridge } = await startStage(t, { certificate });
  for (const [id, name] of [
    ['web-1', 'master.pem'],
    ['web-2', 'stranger.pem'],
  ] as const) {
    copyFileSync(fixture(name), certificate);
    const { userData } = await bridge.enroll.create({ id, project: 'shop', format: 'shell' });
    t.true(userData.includes(pinOf(name)), id);
  }
});
