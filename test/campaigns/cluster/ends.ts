/**
 * Failures that stop members permanently, and the recovery by operators: a store that was altered,
 * and a log that has lost its end. No member may continue as if nothing had happened.
 */
import { cpSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { refoundCluster } from '#cluster';
import { readViewState } from '#cluster/log/view.ts';
import { storeDirectory } from '#config';
import { openLmdbTables } from '#store/lmdb-tables.ts';
import { until } from '../../helpers/deadline.ts';
import { spoilStore } from '../../store-suite/cluster.ts';
import type { MemberProcess } from './member-process.ts';
import { type Site, whenServersAreReady } from './site.ts';

/** Kind of a failure that stops members permanently. */
export type EndKind = 'store altered' | 'log without its end';

const stopMs = 60_000;

/**
 * Waits until the members have stopped because their histories differ.
 * @returns the members that have not stopped
 */
async function haveDiverged(members: readonly MemberProcess[]): Promise<string[]> {
  const going = (): readonly MemberProcess[] =>
    members.filter(({ end }) => end?.code !== 'ERR_STORE_DIVERGED');
  await until('members to stop', () => going().length === 0, stopMs).catch(() => {});
  return going().map(({ name, end }) => `${name} did not stop: ${end?.code ?? 'it goes on'}`);
}

/** Alters the store of a stopped member. The member must stop again, and the others continue. */
async function alterStore(site: Site): Promise<string[]> {
  const [by, member] = site.members.slice(-2);
  if (member === undefined || by === undefined) return ['no members'];
  await member.stop();
  await spoilStore(storeDirectory((await site.configOf(member)).stateDir));
  member.start();
  const problems = await haveDiverged([member]);
  if (problems.length === 0) await site.rejoin(member, by);
  return problems;
}

/**
 * Restores an older state of the servers, so that the log loses its end, and founds the log anew
 * from the most advanced member.
 * @param underLoad - resolves when more has been written
 */
async function loseTheEnd(site: Site, underLoad: () => Promise<void>): Promise<string[]> {
  const { serversDirectory } = site;
  const before = `${serversDirectory}-before`;
  const restart = async (change: () => void): Promise<void> => {
    await Promise.all(site.servers.map((server) => server.stop()));
    change();
    for (const server of site.servers) server.start();
  };
  await restart(() => cpSync(serversDirectory, before, { recursive: true }));
  await underLoad();
  await restart(() => {
    rmSync(serversDirectory, { recursive: true });
    cpSync(before, serversDirectory, { recursive: true });
  });
  const problems = await haveDiverged(site.members);
  return [...problems, ...(await refound(site))];
}

/** Deletes all data of the servers, because their copies of the log differ. */
export async function emptyServers(site: Site): Promise<void> {
  await Promise.all(site.servers.map((server) => server.stop()));
  for (const folder of readdirSync(site.serversDirectory)) {
    rmSync(path.join(site.serversDirectory, folder, 'jetstream'), { recursive: true, force: true });
  }
  for (const server of site.servers) server.start();
}

/**
 * Founds the log anew from the most advanced member. Members that have not stopped by themselves
 * are preferred, because they have the content of the majority. The others follow or join again.
 * @param prepare - called while no master is running
 */
export async function refound(
  site: Site,
  prepare: (site: Site) => Promise<void> = async () => {},
): Promise<string[]> {
  const going = new Set(site.members.filter(({ end }) => end === undefined));
  for (const member of site.members) await member.kill();
  await prepare(site);
  const sorted = await byPosition(site);
  const first = sorted.find((it) => going.has(it)) ?? sorted[0];
  if (first === undefined) return ['no members'];
  const config = await site.configOf(first);
  await whenServersAreReady(() => refoundCluster(config));
  for (const member of sorted) {
    member.start();
    await member.ready();
  }
  for (const member of sorted) if (member.end !== undefined) await site.rejoin(member, first);
  return sorted.flatMap(({ name, end }) => (end === undefined ? [] : `${name}: ${end.message}`));
}

/** Functions for each kind. They return problems; without problems, all members continue. */
export const ends: Readonly<Record<EndKind, typeof loseTheEnd>> = {
  'store altered': alterStore,
  'log without its end': loseTheEnd,
};

/** Returns the members that are not running, the most advanced first. */
async function byPosition(site: Site): Promise<MemberProcess[]> {
  const positions = new Map<MemberProcess, number>();
  for (const member of site.members) {
    const { stateDir } = await site.configOf(member);
    const tables = openLmdbTables(storeDirectory(stateDir), true);
    positions.set(member, readViewState(tables)?.position ?? 0);
    await tables.close();
  }
  return [...positions.keys()].sort(
    (one, other) => (positions.get(other) ?? 0) - (positions.get(one) ?? 0),
  );
}

/**
 * Waits until all members have applied the same position, and compares them.
 * @returns the differences
 */
export async function agreement(members: readonly MemberProcess[]): Promise<string[]> {
  let told = '';
  const end = performance.now() + stopMs;
  while (performance.now() < end) {
    const all = await Promise.all(members.map(({ api }) => api.cluster.status().catch(() => null)));
    const places = new Set(all.map((it) => `${it?.log} ${it?.position}`));
    told = all.map((it, index) => `${members[index]?.name} ${it?.position}`).join(', ');
    if (places.size === 1 && all[0] !== null) {
      const hashes = new Set(all.map((it) => it?.hash));
      return hashes.size === 1 ? [] : [`members differ at one position: ${told}`];
    }
    await sleep(100);
  }
  return [`members do not come to one position: ${told}`];
}
