/**
 * Real minions that are enrolled by user-data. It is processed by cloud-init's own code from
 * Debian's package.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { resolveMasterConfig } from '#config';
import { type Bridge, createBridge } from '#guests';
import type { EnrolRequest } from '#heat-bridge';
import { createSilentLogger, type Master } from '#master';
import { createSaltApi, type SaltApi } from '#salt-api';
import { createMaster } from '#server';
import { freePort } from '../../bench/free-port.ts';
import { ScratchMachine } from '../heat-bridge/enroll/scratch-machine.ts';
import { within } from '../helpers/deadline.ts';
import { testWhere } from '../helpers/needs.ts';
import { MasterHome } from './our-master.ts';
import { versionOf } from './program-version.ts';
import { minionPrograms, steps } from './programs.ts';

const step = steps('SALT_MINION');
const hasCloudInit =
  spawnSync('/usr/bin/python3', ['-c', 'import cloudinit.config.cc_salt_minion']).status === 0;

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../test/fixtures/tls/${name}`, import.meta.url));

let home: MasterHome;
let master: Master;
let bridge: Bridge;
let api: SaltApi;
const machines: ScratchMachine[] = [];

test.before(async () => {
  if (minionPrograms.length === 0) return;
  const port = await freePort();
  const tls = { certificate: fixture('master.pem'), key: fixture('master.key') };
  const enroll = {
    masters: ['127.0.0.1'],
    url: `https://127.0.0.1:${port}`,
    certificate: tls.certificate,
    grain: true,
  };
  home = await MasterHome.create({ bridge: { enroll } });
  bridge = createBridge();
  master = createMaster({
    config: resolveMasterConfig(home.options),
    logger: createSilentLogger(),
    extensions: [bridge],
  });
  await master.start();
  api = await createSaltApi(master, { host: '127.0.0.1', port, tls, plugins: [bridge.http] });
  await api.listen();
});

test.after.always(async () => {
  for (const machine of machines) machine.dispose();
  await api?.close();
  await master?.close();
  home?.dispose();
});

for (const [by, format] of [
  ['claim', 'cloud-init'],
  ['keys', 'cloud-init'],
  ['claim', 'shell'],
  ['keys', 'shell'],
  ['grain', 'shell'],
] as const) {
  const isThere = format !== 'cloud-init' || hasCloudInit;
  const enrols = testWhere(isThere, 'SALT_MINION and the package cloud-init', step);
  enrols(`a minion enrols by ${by}, with user-data for ${format}`, async (t) => {
    for (const program of minionPrograms) {
      const version = await versionOf(program);
      const machine = new ScratchMachine({ path: program });
      machines.push(machine);
      const request: EnrolRequest = {
        id: `${by}-${format}-${version}`,
        project: 'interop',
        by,
        format,
        configDir: machine.configDir,
        config: machine.config,
        grains: { role: 'enrolled' },
        protocol: provesProtocol3(version) ? 3 : 0,
      };
      const { userData, enrolment } = await bridge.enroll.create(request);
      const run = format === 'shell' ? machine.runShell(userData) : machine.runCloudInit(userData);
      const { status, output } = await run;
      t.is(status, 0, output);
      const done = bridge.enroll.signedIn(enrolment.number);
      await within(`the sign-in of ${request.id}; its log ends: ${machine.log}`, done);
      await t.notThrowsAsync(asked(request.id), machine.log);
    }
  });
}

/** Waits until a minion reports the grain of its user-data. */
async function asked(id: string): Promise<void> {
  for (let tries = 0; tries < 5; tries += 1) {
    const request = { tgt: id, fun: 'grains.get', arg: ['role'], timeoutSeconds: 20 };
    for await (const update of master.jobs.run(request)) {
      if (update.type === 'return' && update.return === 'enrolled') return;
    }
  }
  throw new Error(`${id} does not answer`);
}

/** Whether a version of Salt uses protocol version 3, which came with 3006.12 and 3007.4. */
function provesProtocol3(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major === 3006) return minor >= 12;
  return major === 3007 ? minor >= 4 : major > 3007;
}
