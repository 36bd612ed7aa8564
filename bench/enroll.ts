/**
 * Measures enrolments, from the enrolment request to the minion's first verified request, over real
 * ZeroMQ sockets and with a store on disk. The minions run in the same process. The rate limit of
 * sign-ins per address is off, because all minions have the same address.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Bridge, createBridge } from '#guests';
import type { NewEnrolment } from '#heat-bridge';
import { createMinion, dialZeromq, type MinionKeys } from '#minion-protocol';
import { createMaster } from '#server';
import { benchConfig } from './config.ts';

/** Figures for one way of enrolling. */
export interface EnrollFigures {
  readonly perMinute: number;
  /** Processor time of one enrolment in milliseconds, including the minion's. */
  readonly cpuMs: number;
}

const concurrency = 16;
const certificate = fileURLToPath(new URL('../test/fixtures/tls/master.pem', import.meta.url));

/**
 * Measures enrolments with existing key pairs, and with key pairs that are generated during the
 * enrolment.
 */
export async function benchEnroll(): Promise<Readonly<Record<string, EnrollFigures>>> {
  return { prepared: await measure(500, 500), 'on demand': await measure(200, 0) };
}

async function measure(count: number, preparedKeys: number): Promise<EnrollFigures> {
  const root = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const enroll = {
    masters: ['127.0.0.1'],
    url: 'https://127.0.0.1',
    certificate,
    prepared_keys: preparedKeys,
  };
  const config = benchConfig(root, {
    bridge: { enroll },
    limits: { requestsPerSecond: 0, eventsPerSecond: 0, authsPerSecond: 0 },
  });
  const bridge = createBridge();
  const master = createMaster({ config, extensions: [bridge] });
  await master.start();
  try {
    await bridge.enroll.prepared();
    const { requestPort } = await master.status();
    const startedAt = performance.now();
    const before = process.cpuUsage();
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < count) await enrolOne(bridge, `web-${next++}`, requestPort);
    };
    await Promise.all(Array.from({ length: concurrency }, worker));
    const { user, system } = process.cpuUsage(before);
    return {
      perMinute: Math.round((count * 60_000) / (performance.now() - startedAt)),
      cpuMs: Math.round((user + system) / 1000 / count),
    };
  } finally {
    await master.close();
    await rm(root, { recursive: true, force: true });
  }
}

async function enrolOne(bridge: Bridge, id: string, requestPort: number): Promise<void> {
  const request = { id, project: 'bench', by: 'keys', format: 'shell' } as const;
  const made = await bridge.enroll.create(request);
  const transport = dialZeromq({ host: '127.0.0.1', requestPort });
  const minion = createMinion({ id, keys: keysIn(made), transport });
  await minion.start();
  await bridge.enroll.signedIn(made.enrolment.number);
  await minion.stop();
}

function keysIn({ userData }: NewEnrolment): MinionKeys {
  const pem = (kind: string): string =>
    new RegExp(`-----BEGIN ${kind}-----[^-]+-----END ${kind}-----\\n`).exec(userData)?.[0] ?? '';
  return {
    privatePem: pem('RSA PRIVATE KEY'),
    publicPem: pem('PUBLIC KEY'),
    masterPem: undefined,
    trustMaster: async () => {},
  };
}
