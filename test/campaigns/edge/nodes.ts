/** Simulated nodes of a site. They are ids and grains; nothing connects to the master. */

import type { WireValue } from '#minion-protocol';
import type { createMasterServer } from '#server';

type Server = Awaited<ReturnType<typeof createMasterServer>>;

/** Number of nodes of each site. */
export const nodesOfSite = 40;

const roles = ['web', 'db', 'cache', 'queue'];
const systems = ['Debian', 'RedHat', 'Suse'];

/** Number of different inputs of the pillars of all nodes. */
export const distinctInputs: number = roles.length * systems.length;

/** Number of pillars that are requested at the same time. */
const atOnce = 40;

export function nodesOf(site: string): readonly string[] {
  return Array.from({ length: nodesOfSite }, (_, index) => `${site}-n${index}`);
}

function grainsOf(index: number): Record<string, WireValue> {
  const role = roles[index % roles.length] ?? '';
  const os = systems[index % systems.length] ?? '';
  return { role, os, fqdn: `node${index}.example`, serialnumber: String(index) };
}

/**
 * Compiles the pillar of each node. Returns the number of renderings and of wrong pillars.
 * The runner replaces the requests of minions; it uses the same pillar.
 */
export async function compilePillars(
  { master }: Server,
  nodes: readonly string[],
): Promise<{ readonly renderings: number; readonly wrong: number }> {
  const before = await renderingsOf(master);
  let wrong = 0;
  for (let first = 0; first < nodes.length; first += atOnce) {
    const ids = nodes.slice(first, first + atOnce);
    const results = await Promise.all(
      ids.map(async (minion, index) => {
        const grains = grainsOf(first + index);
        const kwarg = { minion, ...grains };
        const { return: pillar } = await master.runners.run({ fun: 'pillar.show_pillar', kwarg });
        return { minion, grains, pillar };
      }),
    );
    for (const { minion, grains, pillar } of results) {
      const isRight =
        fieldOf(pillar, 'name') === minion &&
        fieldOf(pillar, 'role') === grains.role &&
        fieldOf(pillar, 'os') === grains.os &&
        fieldOf(pillar, 'serial') === `s${grains.serialnumber}`;
      if (!isRight) wrong += 1;
    }
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
