/**
 * Real minions with two masters when one of the masters is killed, and a minion that determines its
 * master by a function.
 */
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { generateMasterSignature, generateSaltKeyPair } from '#cli/commands/salt-key-files.ts';
import { type MasterOptions, resolveMasterConfig, type TransportName } from '#config';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { MasterHome } from './our-master.ts';
import { minionProgramsOf, steps } from './programs.ts';

const step = steps('SALT_MINION');
const addresses = ['127.0.0.1', '127.0.0.2'] as const;

/** Reasons for which minions trust the second master. */
const reasons = {
  'one key for both': {},
  'keys vouched for by a third': { masterSignPubkey: true },
  'keys vouched for by signatures made beforehand': {
    masterSignPubkey: true,
    masterUsePubkeySignature: true,
  },
} as const satisfies Readonly<Record<string, Partial<MasterOptions>>>;

for (const [how, options] of Object.entries(reasons)) {
  for (const transport of ['zeromq', 'tcp'] as const) {
    step(`minions over ${transport} go to the other master when theirs is killed; ${how}`, (t) =>
      failOver(t, transport, options),
    );
  }
}

async function failOver(
  t: ExecutionContext,
  transport: TransportName,
  reason: Partial<MasterOptions>,
): Promise<void> {
  const isSigned = reason.masterSignPubkey === true;
  const options = { transport, autoAccept: true, ...reason };
  const home = await MasterHome.create(options);
  t.teardown(() => home.dispose());
  const other = await secondHome(t, home, options);
  if (reason.masterUsePubkeySignature) await signBeforehand(home, other);
  const first = await home.startProcess();
  t.teardown(() => first.kill());
  const second = await other.startHere();
  t.teardown(() => second.close());

  const verify = isSigned ? 'verify_master_pubkey_sign: True' : '';
  const extra = `transport: ${transport}\nmaster_type: failover\nmaster_alive_interval: 3\nretry_dns: 0\n${verify}`;
  const fleet = await Fleet.create(
    { ...home.ports, name: 'over', masters: addresses, extra },
    await programsFor(transport),
  );
  t.teardown(() => fleet.dispose());
  if (isSigned) for (const { directory } of fleet.minions) trust(home, directory);
  const before = new EventLog(await first.api.events.subscribe());
  fleet.start();
  await fleet.started(before);
  await fleet.ask(first.api, { fun: 'test.ping' });
  t.deepEqual([...second.signIns], []);

  const events = new EventLog(await second.api.events.subscribe());
  await first.kill();
  await fleet.started(events);
  const { returns } = await fleet.ask(second.api, { fun: 'test.ping' });
  t.is(returns.size, fleet.ids.length);
}

step(
  'minions with two masters at once run jobs of both, and of each if the other is killed',
  async (t) => {
    const options = { autoAccept: true };
    const home = await MasterHome.create(options);
    t.teardown(() => home.dispose());
    const other = await secondHome(t, home, options);
    const first = await home.startProcess();
    t.teardown(() => first.kill());
    const second = await other.startProcess();
    t.teardown(() => second.kill());
    const fleet = await Fleet.create({ ...home.ports, name: 'hot', masters: addresses });
    t.teardown(() => fleet.dispose());
    const [toFirst, toSecond] = await Promise.all(
      [first, second].map(async ({ api }) => new EventLog(await api.events.subscribe())),
    );
    fleet.start();
    for (const events of [toFirst, toSecond]) if (events !== undefined) await fleet.started(events);
    for (const { api } of [first, second]) await fleet.ask(api, { fun: 'test.ping' });

    await first.kill();
    await fleet.ask(second.api, { fun: 'test.ping' });
    const again = await home.startProcess();
    t.teardown(() => again.kill());
    await fleet.connected(again.api);
    await second.kill();
    const { returns } = await fleet.ask(again.api, { fun: 'test.ping' });
    t.is(returns.size, fleet.ids.length);
  },
);

step('minions that find their master with their own function connect', async (t) => {
  const home = await MasterHome.create({ autoAccept: true });
  t.teardown(() => home.dispose());
  const master = await home.startHere();
  t.teardown(() => master.close());
  const modules = path.join(home.directory, 'modules');
  mkdirSync(modules);
  writeFileSync(path.join(modules, 'where.py'), 'def master():\n    return "127.0.0.1"\n');
  const extra = `master_type: func\nmodule_dirs: [${modules}]`;
  const masters = ['where.master'];
  const fleet = await Fleet.create({ ...home.ports, name: 'func', masters, extra });
  t.teardown(() => fleet.dispose());
  const events = new EventLog(await master.api.events.subscribe());
  fleet.start();
  await fleet.started(events);
  const { returns } = await fleet.ask(master.api, { fun: 'test.ping' });
  t.is(returns.size, fleet.ids.length);
});

/**
 * Returns a second master with the same ports on another address. Both masters have the same keys.
 */
async function secondHome(
  t: ExecutionContext,
  home: MasterHome,
  options: Partial<MasterOptions>,
): Promise<MasterHome> {
  const other = await MasterHome.create({
    ...options,
    interface: addresses[1],
    retPort: home.ports.requestPort,
    publishPort: home.ports.publishPort,
  });
  t.teardown(() => other.dispose());
  const name = options.masterSignPubkey ? 'master_sign' : 'master';
  const [from = '', to = ''] = [home, other].map(({ directory }) => path.join(directory, 'pki'));
  for (const directory of [from, to]) mkdirSync(directory, { mode: 0o700 });
  await generateSaltKeyPair(from, name, 2048);
  for (const half of ['pem', 'pub']) {
    copyFileSync(path.join(from, `${name}.${half}`), path.join(to, `${name}.${half}`));
  }
  return other;
}

/** Generates the key pairs of the masters, signs them with a common key, and removes this key. */
async function signBeforehand(...homes: readonly MasterHome[]): Promise<void> {
  for (const home of homes) {
    const config = resolveMasterConfig(home.options);
    await generateSaltKeyPair(config.pkiDir, 'master', 2048);
    const made = await generateMasterSignature(config, { keysize: 2048 });
    if (made !== true) throw new Error(`no signature: ${made}`);
    rmSync(path.join(config.pkiDir, 'master_sign.pem'));
  }
}

/** Installs on a minion the public key that verifies the signatures of its masters' keys. */
function trust(home: MasterHome, directory: string): void {
  mkdirSync(path.join(directory, 'pki'), { recursive: true });
  copyFileSync(
    path.join(home.directory, 'pki', 'master_sign.pub'),
    path.join(directory, 'pki', 'master_sign.pub'),
  );
}

/**
 * Returns the minions for a transport. Over TCP, minions of 3007 and later do not survive the loss
 * of the publish connection.
 */
function programsFor(transport: TransportName): Promise<readonly string[]> {
  return minionProgramsOf((release) => transport === 'zeromq' || release < 3007);
}
