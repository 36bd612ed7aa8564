/**
 * Measures how long the HTTP API blocks the event loop of a master while it reads hostile and large
 * bodies.
 */
import { fork } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { createSaltApi } from '#salt-api';
import { createMaster } from '#server';
import { benchConfig } from '../config.ts';

/** Delays of the event loop, in milliseconds. */
export interface DelayFigures {
  readonly median: number;
  readonly most999: number;
  readonly most: number;
  readonly requests: number;
}

const password = 'bench';

/** Interval between two measurements of the delay, in milliseconds. */
const resolution = 1;

/**
 * Measures the delays for each kind of body.
 * @param seconds - duration for each kind
 */
export async function benchHttpDelay(seconds: number): Promise<ReadonlyMap<string, DelayFigures>> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const config = benchConfig(rootDir, {
    externalAuth: { sharedsecret: { bench: ['.*', '@runner', '@wheel'] } },
    eauth: { sharedsecret: password },
  });
  const master = createMaster({ config });
  await master.start();
  const api = await createSaltApi(master, { host: '127.0.0.1' });
  const { port } = await api.listen();
  const client = fork(fileURLToPath(new URL('./client.ts', import.meta.url)));
  const figures = new Map<string, DelayFigures>();
  try {
    for (const kind of await ask<readonly string[]>(client, { do: 'kinds' })) {
      // Requests before the measurement, so that the compilation of code is not measured.
      await ask(client, { do: 'send', kind, port, password, seconds: 1 });
      const delay = monitorEventLoopDelay({ resolution });
      delay.enable();
      const requests = await ask<number>(client, { do: 'send', kind, port, password, seconds });
      delay.disable();
      const late = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - resolution);
      figures.set(kind, {
        median: late(delay.percentile(50)),
        most999: late(delay.percentile(99.9)),
        most: late(delay.max),
        requests,
      });
    }
  } finally {
    client.kill();
    await api.close();
    await master.close();
    await rm(rootDir, { recursive: true, force: true });
  }
  return figures;
}

function ask<T>(client: ReturnType<typeof fork>, order: object): Promise<T> {
  return new Promise((resolve) => {
    client.once('message', (answer) => resolve(answer as T)); // as client.ts sends it
    client.send(order);
  });
}
