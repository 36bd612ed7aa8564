/**
 * Measures how many signals per second a master accepts durably, while it delivers as many as it
 * can.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startEndpoint } from './endpoint.ts';
import { emit, openSetting } from './setting.ts';

export interface SignalRateFigures {
  readonly acceptedPerSecond: number;
  readonly acceptedMs99: number;
  /** Signals that arrived at the endpoint in the same time, per second. */
  readonly deliveredPerSecond: number;
}

const minionCount = 400;
const handles = Array.from({ length: 20 }, (_, index) => `h${index}`);

/**
 * @param seconds - duration of the load. Each minion sends its next signal as soon as it gets the
 * reply
 */
export async function benchSignalRate(seconds: number): Promise<SignalRateFigures> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-signals-'));
  const endpoint = await startEndpoint(() => 1);
  const { origin } = endpoint;
  const { master, minions } = await openSetting({ rootDir, minions: minionCount, handles, origin });
  try {
    const end = performance.now() + seconds * 1000;
    const times: number[] = [];
    await Promise.all(
      minions.map(async (minion, index) => {
        for (let number = 0; performance.now() < end; number += 1) {
          const from = performance.now();
          const handle = handles[(index + number) % handles.length] ?? '';
          if (await emit(minion, handle, number, () => false)) times.push(performance.now() - from);
        }
      }),
    );
    times.sort((a, b) => a - b);
    return {
      acceptedPerSecond: times.length / seconds,
      acceptedMs99: times[Math.floor(times.length * 0.99)] ?? 0,
      deliveredPerSecond: endpoint.arrivals.length / seconds,
    };
  } finally {
    await master.kill();
    await endpoint.close();
    await rm(rootDir, { recursive: true, force: true });
  }
}
