/** Measures how many pillars one core compiles from files, without the network protocol. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createSilentLogger } from '#master/api/index.ts';
import type { OwnPillar } from '#salt/pillar/own-pillar.ts';
import { openPillar } from '#salt/pillar/pillar.ts';
import { benchConfig } from './config.ts';

/**
 * Pillars per second. Each has 20 keys from a top file, two SLS files and a map that they import.
 */
export interface PillarFigures {
  /** For the same minions again, one after the other. */
  readonly fromTheCache: number;
  /** For 500 minions at the same time. */
  readonly fromTheCacheAtOnce: number;
  /** For unknown minions, one after the other. The pillar depends on a grain. */
  readonly madeAnew: number;
  readonly madeAnewAtOnce: number;
  /** For unknown minions with pillars that depend on the id. These pillars are not shared. */
  readonly madeForEach: number;
  /** For the same minions again. */
  readonly madeForEachFromTheCache: number;
}

/** Figures of a fleet whose minions differ in few inputs. */
export interface FleetFigures {
  readonly minions: number;
  readonly inputs: number;
  /** Number of renderings for all minions. */
  readonly renderings: number;
  readonly pillarsPerSecond: number;
  /** Memory of the heap and of buffers that the pillars take, in MiB. */
  readonly memoryMiB: number;
}

const minions = 500;

const files: Readonly<Record<string, string>> = {
  'top.sls':
    "base:\n  '*': [common]\n  'role:web':\n    - match: grain\n    - web\n  'role:each':\n    - match: grain\n    - each\n",
  'each.sls': `upper: {{ grains.id | upper }}\n${keys('each', 6)}`,
  'map.jinja': "{% set pkg = {'Debian': 'nginx', 'RedHat': 'httpd'}.get(grains.os, 'nginx') %}\n",
  'common.sls': `name: {{ grains.id }}\nrole: {{ grains.role }}\n${keys('common', 12)}`,
  'web.sls': `{% from 'map.jinja' import pkg with context %}\npackage: {{ pkg }}\n${keys('web', 6)}`,
};

function keys(name: string, count: number): string {
  const lines = Array.from({ length: count }, (_, index) => {
    return `${name}${index}: {port: ${8000 + index}, tags: [a, b], on: {{ grains.os == 'Debian' }}}`;
  });
  return `${lines.join('\n')}\n`;
}

export function benchPillar(): Promise<PillarFigures> {
  return withPillar(async (pillar) => {
    for (const id of names('warm')) await ask(pillar, id);
    return {
      madeAnew: await rate(async () => {
        for (const id of names('one')) await ask(pillar, id);
      }),
      madeAnewAtOnce: await rate(() => Promise.all(names('many').map((id) => ask(pillar, id)))),
      fromTheCache: await rate(async () => {
        for (const id of names('one')) await ask(pillar, id);
      }),
      fromTheCacheAtOnce: await rate(() => Promise.all(names('one').map((id) => ask(pillar, id)))),
      madeForEach: await rate(async () => {
        for (const id of names('each')) await ask(pillar, id, { role: 'each' });
      }),
      madeForEachFromTheCache: await rate(async () => {
        for (const id of names('each')) await ask(pillar, id, { role: 'each' });
      }),
    };
  });
}

/** Number of minions of the fleet. */
const fleetSize = 40_000;
/** Number of minions of the fleet that request their pillar at the same time. */
const atOnce = 500;
const roles = ['web', 'db', 'cache', 'queue'];
const systems = ['Debian', 'RedHat', 'Suse'];

export function benchFleet(): Promise<FleetFigures> {
  return withPillar(async (pillar) => {
    const before = usedMemory();
    const startedAt = performance.now();
    for (let first = 0; first < fleetSize; first += atOnce) {
      const part = Array.from({ length: atOnce }, (_, index) => {
        const number = first + index;
        const role = roles[number % roles.length];
        return ask(pillar, `fleet-${number}`, { role, os: systems[number % systems.length] });
      });
      await Promise.all(part);
    }
    const seconds = (performance.now() - startedAt) / 1000;
    return {
      minions: fleetSize,
      inputs: roles.length * systems.length,
      renderings: pillar.made,
      pillarsPerSecond: fleetSize / seconds,
      memoryMiB: (usedMemory() - before) / 2 ** 20,
    };
  });
}

function usedMemory(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function withPillar<T>(work: (pillar: OwnPillar) => Promise<T>): Promise<T> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const srv = path.join(rootDir, 'pillar');
  await mkdir(srv, { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(srv, name), text);
  const config = benchConfig(rootDir, { pillarRoots: { base: [srv] } });
  const pillar = await openPillar(config, { log: createSilentLogger(), now: Date.now });
  try {
    // The files were changed just now, so the first compilations read them again to be certain.
    await new Promise((resolve) => {
      setTimeout(resolve, 2500);
    });
    return await work(pillar);
  } finally {
    await pillar.close();
    await rm(rootDir, { recursive: true });
  }
}

function names(prefix: string): string[] {
  return Array.from({ length: minions }, (_, index) => `${prefix}-${index}`);
}

async function ask(
  pillar: OwnPillar,
  id: string,
  more: { readonly role?: string | undefined; readonly os?: string | undefined } = {},
): Promise<void> {
  const { role = 'web', os = 'Debian' } = more;
  const grains = { id, os, role, cpus: 4, nested: { a: [1, 2, 3] } };
  await pillar.provide({ id, grains, saltenv: undefined, pillarenv: undefined });
}

async function rate(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return (minions * 1000) / (performance.now() - startedAt);
}
