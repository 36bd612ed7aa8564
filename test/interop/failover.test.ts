/** Real minions with two masters, one of which is killed. */
import { copyFileSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import type { MasterOptions, TransportName } from '../../master/index.ts';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { MasterHome } from './our-master.ts';
import { minionPrograms, steps, versionOf } from './programs.ts';

const step = steps('SALT_MINION');
const addresses = ['127.0.0.1', '127.0.0.2'] as const;

for (const isSigned of [false, true]) {
  const how = isSigned ? 'keys vouched for by a third' : 'one key for both';
  for (const transport of ['zeromq', 'tcp'] as const) {
    step(`minions over ${transport} go to the other master when theirs is killed; ${how}`, (t) =>
      failOver(t, transport, isSigned),
    );
  }
}

async function failOver(
  t: ExecutionContext,
  transport: TransportName,
  isSigned: boolean,
): Promise<void> {
  const options = { transport, autoAccept: true, masterSignPubkey: isSigned };
  const home = await MasterHome.create(options);
  t.teardown(() => home.dispose());
  const first = await home.startProcess();
  t.teardown(() => first.kill());
  const other = await secondHome(t, home, options);
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
  const before = new EventLog(first.api.events.subscribe());
  fleet.start();
  await fleet.started(before);
  await fleet.ask(first.api, { fun: 'test.ping' });
  t.deepEqual([...second.signIns], []);

  const events = new EventLog(second.api.events.subscribe());
  await first.kill();
  await fleet.started(events);
  const { returns } = await fleet.ask(second.api, { fun: 'test.ping' });
  t.is(returns.size, fleet.ids.length);
}

/** A master with the same ports on another address, and the keys that both must have. */
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
  mkdirSync(path.join(other.directory, 'pki'), { mode: 0o700 });
  for (const half of ['pem', 'pub']) {
    const name = `${options.masterSignPubkey ? 'master_sign' : 'master'}.${half}`;
    copyFileSync(path.join(home.directory, 'pki', name), path.join(other.directory, 'pki', name));
  }
  return other;
}

/** Gives a minion the public key that vouches for its masters' keys. */
function trust(home: MasterHome, directory: string): void {
  mkdirSync(path.join(directory, 'pki'), { recursive: true });
  copyFileSync(
    path.join(home.directory, 'pki', 'master_sign.pub'),
    path.join(directory, 'pki', 'master_sign.pub'),
  );
}

/** Over TCP a minion of 3007 or later does not survive the loss of its publish connection. */
async function programsFor(transport: TransportName): Promise<string[]> {
  const programs: string[] = [];
  for (const program of minionPrograms) {
    const release = Number.parseInt(await versionOf(program), 10);
    if (transport === 'zeromq' || release < 3007) programs.push(program);
  }
  return programs;
}
