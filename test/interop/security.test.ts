/**
 * Protection against strangers on both sides, with real minions: signatures, fingerprints and key
 * sizes.
 */
import { createPublicKey } from 'node:crypto';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { type MasterOptions, resolveMasterConfig } from '#config';
import { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { Fleet, runJob } from './fleet.ts';
import { MasterHome, type OurMaster, startMaster } from './our-master.ts';
import { fipsPrograms, steps } from './programs.ts';
import type { RealMinionOptions } from './real-minion.ts';

const step = steps('SALT_MINION');

/** Exit code of Salt's minion if it does not trust its master. */
const untrusted = 42;

async function createHome(
  t: ExecutionContext,
  options: Partial<MasterOptions> = {},
): Promise<MasterHome> {
  const home = await MasterHome.create(options);
  t.teardown(() => home.dispose());
  return home;
}

/** Starts a master in its home. The given options replace those of the home. */
async function start(
  t: ExecutionContext,
  home: MasterHome,
  more: Partial<MasterOptions> = {},
): Promise<OurMaster> {
  const master = await startMaster(resolveMasterConfig({ ...home.options, ...more }));
  t.teardown(() => master.close());
  return master;
}

async function createFleet(
  t: ExecutionContext,
  home: MasterHome,
  options: Partial<RealMinionOptions>,
  programs?: readonly string[],
): Promise<Fleet> {
  const fleet = await Fleet.create({ ...home.ports, ...options }, programs);
  t.teardown(() => fleet.dispose());
  return fleet;
}

/** Starts minions whose keys are accepted automatically, and waits until they are ready. */
async function startAccepted(fleet: Fleet, { api }: OurMaster): Promise<void> {
  const events = new EventLog(await api.events.subscribe());
  fleet.start();
  await fleet.started(events);
}

/** Installs on each minion the key that verifies signatures of masters' keys. */
async function trustSigner(fleet: Fleet, home: MasterHome): Promise<void> {
  const signer = path.join(home.directory, 'pki', 'master_sign.pub');
  for (const { directory } of fleet.minions) {
    mkdirSync(path.join(directory, 'pki'), { mode: 0o700 });
    copyFileSync(signer, path.join(directory, 'pki', 'master_sign.pub'));
  }
}

/** Starts minions that receive a reply of the master and reject it. They try repeatedly. */
async function turnAway(t: ExecutionContext, fleet: Fleet, { api }: OurMaster): Promise<void> {
  const events = new EventLog(await api.events.subscribe());
  const before = new Map(fleet.minions.map(({ id, log }) => [id, log.length]));
  fleet.start();
  await fleet.each((minion) =>
    eventually(
      'two refusals of the master',
      async () => minion.log.slice(before.get(minion.id)).split('did not authenticate!').length > 2,
      120_000,
    ),
  );
  for (const { id } of fleet.minions) t.false(events.has(`salt/minion/${id}/start`), id);
}

function bitsOf(publicPem: string): number | undefined {
  return createPublicKey(publicPem).asymmetricKeyDetails?.modulusLength;
}

step('4096-bit keys, a master that is vouched for, signed jobs, autosign_file', async (t) => {
  const home = await createHome(t, { keysize: 4096, masterSignPubkey: true });
  const autosignFile = path.join(home.directory, 'autosign');
  writeFileSync(autosignFile, 'salt-*\nplain-*\n', { mode: 0o600 });
  const master = await start(t, home, { autosignFile });
  const extra = 'keysize: 4096\nverify_master_pubkey_sign: True\nsign_pub_messages: True';
  const fleet = await createFleet(t, home, { extra });
  await trustSigner(fleet, home);
  await startAccepted(fleet, master);
  await fleet.ask(master.api, { fun: 'test.ping' });
  for (const { id, publicKey, state } of await master.api.keys.list()) {
    t.is(state, 'accepted', id);
    t.is(bitsOf(publicKey), 4096, id);
  }

  // A minion that does not expect a signature also rejects the master, because both sides must use
  // signatures or neither.
  const plain = await createFleet(t, home, { name: 'plain' });
  await turnAway(t, plain, master);
  await plain.dispose();
  await master.close();

  const silent = await start(t, home, { signPubMessages: false });
  await fleet.connected(silent.api);
  const request = { tgt: '*', fun: 'test.ping', timeoutSeconds: 15, gatherJobTimeoutSeconds: 3 };
  const outcome = await runJob(silent.api, { ...request, tgt: 'salt-*' });
  // The minions have subscribed, but have sent no request. A restarted master lists such minions as
  // reconnecting.
  const { silent: quiet, reconnecting } = outcome;
  t.deepEqual([...quiet, ...reconnecting].sort(), fleet.ids, 'unsigned jobs are not taken');
  await silent.close();

  await Promise.all(fleet.minions.map((minion) => minion.kill()));
  await turnAway(t, fleet, await start(t, home, { masterSignPubkey: false }));
});

step('a minion with the right master_finger answers, with a wrong one it leaves', async (t) => {
  const home = await createHome(t, { autoAccept: true });
  const master = await start(t, home);
  const own = (await master.api.keys.local()).find(({ name }) => name === 'master.pub');
  const finger = own?.fingerprint ?? '';
  const right = await createFleet(t, home, { extra: `master_finger: '${finger}'` });
  await startAccepted(right, master);
  await right.ask(master.api, { fun: 'test.ping' });
  await Promise.all(right.minions.map((minion) => minion.kill()));

  const wrong = finger.replace(/^../, (pair) => (pair === '00' ? '01' : '00'));
  const wary = await createFleet(t, home, { name: 'wary', extra: `master_finger: '${wrong}'` });
  wary.start();
  await wary.each(async (minion) => t.is(await minion.exited(120_000), untrusted, minion.id));
});

step(
  'minions with the algorithms of FIPS sign in, verify jobs and read their pillar',
  async (t) => {
    const programs = await fipsPrograms();
    t.log(`${programs.length} of the programs know them`);
    const home = await createHome(t, {
      autoAccept: true,
      publishSigningAlgorithm: 'PKCS1v15-SHA224',
      masterSignPubkey: true,
    });
    const config = resolveMasterConfig(home.options);
    const master = await startMaster(config, async ({ id }) => ({ of: id }));
    t.teardown(() => master.close());
    const extra = `encryption_algorithm: OAEP-SHA224
signing_algorithm: PKCS1v15-SHA224
verify_master_pubkey_sign: True
sign_pub_messages: True`;
    const fleet = await createFleet(t, home, { extra }, programs);
    await trustSigner(fleet, home);
    await startAccepted(fleet, master);
    const { returns } = await fleet.ask(master.api, { fun: 'pillar.get', arg: ['of'] });
    for (const [id, result] of returns) t.is(result.return, id);
  },
);

step('autosign_grains accepts; unsigned jobs and keys of 30 s are no hindrance', async (t) => {
  const home = await createHome(t, {
    signPubMessages: false,
    publishSession: 30,
    loopInterval: 5,
  });
  const autosignGrainsDir = path.join(home.directory, 'autosign_grains');
  mkdirSync(autosignGrainsDir, { mode: 0o700 });
  writeFileSync(path.join(autosignGrainsDir, 'role'), 'interop\n', { mode: 0o600 });
  const master = await start(t, home, { autosignGrainsDir });
  const events = new EventLog(await master.api.events.subscribe());
  const fleet = await createFleet(t, home, { extra: 'autosign_grains: [role]' });
  fleet.start();
  await fleet.started(events);
  for (let rotation = 0; rotation < 3; rotation += 1) {
    const mark = events.length;
    const signIns = master.signIns.length;
    await events.seen('the rotation', ({ tag }) => tag === 'key', { from: mark });
    await fleet.ask(master.api, { fun: 'test.ping' });
    const again = new Set(master.signIns.slice(signIns));
    t.deepEqual([...again].sort(), fleet.ids);
  }
});
