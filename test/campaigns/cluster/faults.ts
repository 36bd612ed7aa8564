/** Faults of the campaign. The seed selects each fault. After it, everything works again. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { NatsServer } from '../../../bench/nats-cluster.ts';
import type { SmallDisk } from '../../helpers/small-disk.ts';
import type { TcpProxy } from '../../helpers/tcp-proxy.ts';
import type { Random } from '../random.ts';
import type { MemberProcess } from './member-process.ts';
import type { Site } from './site.ts';

interface FaultSetting {
  readonly site: Site;
  readonly random: Random;
  /** The small disk of a member, if one can be mounted. */
  readonly disk: { readonly member: MemberProcess; readonly disk: SmallDisk } | undefined;
}

/**
 * Function that causes a fault.
 * @returns description of what was affected
 */
type Fault = (setting: FaultSetting) => Promise<string>;

function pick<T>(random: Random, items: readonly T[]): T {
  const item = items[random.below(items.length)];
  if (item === undefined) throw new Error('nothing to choose from');
  return item;
}

/** Selects a server. Returns it with its number. */
function pickServer({ site, random }: FaultSetting): [NatsServer, number] {
  const server = pick(random, site.servers);
  return [server, site.servers.indexOf(server)];
}

/** Returns the routes between two different servers. */
function pickRoutes({ site, random }: FaultSetting): [readonly TcpProxy[], string] {
  const one = random.below(3);
  const other = (one + 1 + random.below(2)) % 3;
  return [site.routesOf(one, other), `n${one} and n${other}`];
}

async function whileFailing(
  proxies: readonly TcpProxy[],
  fail: (proxy: TcpProxy) => void,
  ms: number,
): Promise<void> {
  for (const proxy of proxies) fail(proxy);
  await sleep(ms);
  for (const proxy of proxies) proxy.mend();
}

async function whileStopped(process: Pick<MemberProcess, 'signal'>, ms: number): Promise<void> {
  process.signal('SIGSTOP');
  await sleep(ms);
  process.signal('SIGCONT');
}

async function restartAfter(member: MemberProcess, ms: number): Promise<string> {
  await member.kill();
  await sleep(ms);
  member.start();
  await member.ready();
  return member.name;
}

export const faults: Readonly<Record<string, Fault>> = {
  'master killed': ({ site, random }) =>
    restartAfter(pick(random, site.members), random.below(4000)),
  'master that holds the lease killed': ({ site, random }) =>
    restartAfter(holderOf(site) ?? pick(random, site.members), random.below(4000)),
  'two masters killed': async ({ site, random }) => {
    const one = random.below(5);
    const two = [site.members[one], site.members[(one + 1 + random.below(4)) % 5]];
    await Promise.all(two.map((member) => member?.kill()));
    await sleep(random.below(3000));
    for (const member of two) member?.start();
    await Promise.all(two.map((member) => member?.ready()));
    return two.map((member) => member?.name).join(' and ');
  },
  'master restarted': async ({ site, random }) => {
    const member = pick(random, site.members);
    await member.stop();
    member.start();
    await member.ready();
    return member.name;
  },
  'master stopped': async ({ site, random }) => {
    const member = pick(random, site.members);
    await whileStopped(member, 1000 + random.below(14_000));
    return member.name;
  },
  'master cut off': async ({ site, random }) => {
    const member = pick(random, site.members);
    await whileFailing(member.place.proxies, (it) => it.cut(), 1000 + random.below(16_000));
    return member.name;
  },
  'master hears nothing': async ({ site, random }) => {
    const member = pick(random, site.members);
    const ms = 1000 + random.below(8000);
    await whileFailing(member.place.proxies, (it) => it.cut('to-client'), ms);
    return member.name;
  },
  'master is not heard': async ({ site, random }) => {
    const member = pick(random, site.members);
    const ms = 1000 + random.below(8000);
    await whileFailing(member.place.proxies, (it) => it.cut('to-server'), ms);
    return member.name;
  },
  'slow line': async ({ site, random }) => {
    const member = pick(random, site.members);
    const delayMs = 50 + random.below(1500);
    await whileFailing(member.place.proxies, (it) => it.slow(delayMs), 2000 + random.below(4000));
    return `${member.name}, ${delayMs} ms`;
  },
  'lines half closed': async ({ site, random }) => {
    const member = pick(random, site.members);
    for (const proxy of member.place.proxies) proxy.halfClose();
    return member.name;
  },
  'server killed': async (setting) => {
    const [server, number] = pickServer(setting);
    await server.kill();
    await sleep(setting.random.below(3000));
    server.start();
    return `n${number}`;
  },
  'leader of the log killed': async ({ site, random }) => {
    const number = await site.leader();
    const server = site.servers[number];
    await server?.kill();
    await sleep(random.below(10_000));
    server?.start();
    return `n${number}`;
  },
  'server stopped': async (setting) => {
    const [server, number] = pickServer(setting);
    await whileStopped(server, 1000 + setting.random.below(8000));
    return `n${number}`;
  },
  'route cut': async (setting) => {
    const [routes, names] = pickRoutes(setting);
    await whileFailing(routes, (it) => it.cut(), 1000 + setting.random.below(8000));
    return names;
  },
  'route slow': async (setting) => {
    const [routes, names] = pickRoutes(setting);
    const delayMs = 20 + setting.random.below(400);
    await whileFailing(routes, (it) => it.slow(delayMs), 2000 + setting.random.below(4000));
    return `${names}, ${delayMs} ms`;
  },
  'server cut off': async (setting) => {
    const [, number] = pickServer(setting);
    const others = [0, 1, 2].filter((it) => it !== number);
    const routes = others.flatMap((other) => setting.site.routesOf(number, other));
    await whileFailing(routes, (it) => it.cut(), 1000 + setting.random.below(8000));
    return `n${number}`;
  },
  'all servers restarted': async ({ site }) => {
    await Promise.all(site.servers.map((server) => server.stop()));
    for (const server of site.servers) server.start();
    return 'cleanly';
  },
  'clock step': async ({ site, random }) => {
    const member = pick(random, site.members);
    const stepMs = random.below(2) === 0 ? 60_000 : -60_000;
    // If the clocks in a cluster differ by more than this, the operator gets a warning.
    const clockMs = member.clockMs === 0 ? stepMs : 0;
    member.setClock(clockMs);
    return `${member.name} at ${clockMs / 1000} s`;
  },
  'disk full': async ({ disk, random }) => {
    if (disk === undefined) return 'left out: no disk may be mounted here';
    disk.disk.fill();
    await sleep(2000 + random.below(4000));
    disk.disk.free();
    return disk.member.name;
  },
};

/** Whether a fault affects the NATS servers or the routes between them. */
export function isOfServers(kind: string): boolean {
  return /server|route|leader/.test(kind);
}

/** Returns the member that performs the duties of the cluster, according to the logs. */
export function holderOf({ members }: Site): MemberProcess | undefined {
  const held = members.filter((it) => it.heldSince !== undefined);
  return held.sort((one, other) => (other.heldSince ?? 0) - (one.heldSince ?? 0))[0];
}

/**
 * Yields the kinds of faults in an order that the seed determines. Each kind comes once before any
 * is repeated.
 */
export function* kindsOf(
  random: Random,
  kinds: readonly string[] = Object.keys(faults),
): Generator<string, never, void> {
  for (;;) {
    const rest = [...kinds];
    while (rest.length > 0) yield* rest.splice(random.below(rest.length), 1);
  }
}
