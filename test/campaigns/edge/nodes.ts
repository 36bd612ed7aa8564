/** Simulated nodes of a site. They are ids and grains; nothing connects to the master. */

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { WireMap } from '#minion-protocol';
import type { createMasterServer } from '#server';
import { rsaPair } from '../../helpers/rsa-keys.ts';

type Server = Awaited<ReturnType<typeof createMasterServer>>;

/** Number of nodes of each site. */
export const nodesOfSite = 40;

const roles = ['web', 'db', 'cache', 'queue'];
const systems = ['Debian', 'RedHat', 'Suse'];

/** Number of different inputs of the pillars of all nodes. */
export const distinctInputs: number = roles.length * systems.length;

/** Number of pillars that are requested at the same time. */
const atOnce = 40;

export function nodesOf(site: string, count: number = nodesOfSite): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${site}-n${index}`);
}

/** Writes accepted keys, because a master shares only the pillars of minions that it knows. */
export function layNodeKeys(pkiDir: string, nodes: readonly string[]): void {
  const directory = path.join(pkiDir, 'minions');
  if (existsSync(directory)) return;
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const { publicPem } = rsaPair();
  for (const node of nodes) writeFileSync(path.join(directory, node), publicPem);
}

/** Returns the grains of nodes. */
export function grainsOf(
  nodes: readonly string[],
): readonly { readonly id: string; readonly grains: WireMap }[] {
  return nodes.map((id, index) => ({ id, grains: { ...grainsAt(index), id } }));
}

function grainsAt(index: number): WireMap {
  const role = roles[index % roles.length] ?? '';
  const os = systems[index % systems.length] ?? '';
  return { role, os, fqdn: `node${index}.example`, serialnumber: String(index) };
}

/** Compiles the pillar of each node. Returns the number of renderings and of wrong pillars. */
export async function compilePillars(
  { master }: Server,
  nodes: readonly string[],
): Promise<{ readonly renderings: number; readonly wrong: number }> {
  const before = await renderingsOf(master);
  let wrong = 0;
  for (let first = 0; first < nodes.length; first += atOnce) {
    const checks = nodes.slice(first, first + atOnce).map(async (minion, index) => {
      const { role, os, serialnumber } = grainsAt(first + index);
      const pillar = await master.pillar.show({ minion });
      const expected = { name: minion, role, os, serial: `s${serialnumber}` };
      return Object.entries(expected).every(([name, value]) => fieldOf(pillar, name) === value);
    });
    wrong += (await Promise.all(checks)).filter((isRight) => !isRight).length;
  }
  return { renderings: (await renderingsOf(master)) - before, wrong };
}

function fieldOf(pillar: unknown, name: string): unknown {
  if (pillar instanceof Map) return pillar.get(name);
  return typeof pillar === 'object' && pillar !== null ? Reflect.get(pillar, name) : undefined;
}

async function renderingsOf(master: Server['master']): Promise<number> {
  const families = await master.metrics();
  const family = families.find(({ name }) => name.endsWith('pillar_renderings_total'));
  return family?.type === 'counter' ? (family.samples[0]?.value ?? Number.NaN) : Number.NaN;
}
