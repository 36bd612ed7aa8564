/**
 * Starts a master with its HTTP API and a bridge, and sends generated bodies to all of its routes.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createBridge } from '#guests';
import type { Master } from '#master';
import { createSaltApi } from '#salt-api';
import { createMaster } from '#server';
import { benchConfig } from '../../bench/config.ts';
import { type FuzzOutcome, fuzz } from './http-fuzz.ts';

const password = 'campaign';
const megabyte = 1_048_576;

/**
 * Maximum growth of the heap during the run, in megabytes. Some growth comes from stored jobs and
 * events.
 */
const maxGrowth = 48;

/**
 * Runs the campaign.
 * @returns 1 if there were problems
 */
export async function runHttpFuzz(
  [bodies = '20000', seed = String(Date.now() % 1_000_000), first = '0']: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  const plan = { seed: Number(seed), first: Number(first), count: Number(bodies) };
  print(`fuzz-http ${bodies} ${seed} ${first}`);
  const warmUp = { ...plan, first: 1_000_000, count: Math.min(1000, plan.count) };
  const collect = collector();
  const problems: string[] = [];
  await withApi(async (port, tokens) => {
    problems.push(...(await fuzz({ port, tokens }, warmUp)).problems);
    const before = collect();
    const outcome = await fuzz({ port, tokens }, plan);
    problems.push(...outcome.problems);
    report(outcome, print);
    const grown = (collect() - before) / megabyte;
    print(`heap: ${grown.toFixed(1)} MB more than before`);
    if (grown > maxGrowth) problems.push(`the heap grew by more than ${maxGrowth} MB`);
  });
  for (const problem of problems) print(`PROBLEM ${problem}`);
  print(problems.length === 0 ? 'nothing was wrong' : `replay: fuzz-http 1 ${seed} NUMBER`);
  return problems.length === 0 ? 0 : 1;
}

function report({ statuses, largestStep }: FuzzOutcome, print: (line: string) => void): void {
  const counts = [...statuses]
    .sort(([a], [b]) => a - b)
    .map(([status, count]) => `${status}: ${count}`);
  print(`answers: ${counts.join(', ')}`);
  print(`largest step: ${largestStep.characters} characters, ${largestStep.values} values`);
}

/** Returns a function that runs the garbage collector and returns the size of the heap in bytes. */
function collector(): () => number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void; // as the flag says
  return () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
}

async function withApi(
  work: (port: number, tokens: readonly string[]) => Promise<void>,
): Promise<void> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const bridge = createBridge({});
  const config = benchConfig(rootDir, {
    timeout: 0.05,
    gatherJobTimeout: 0.05,
    externalAuth: { sharedsecret: { admin: ['.*', '@runner', '@wheel'], limited: ['test.*'] } },
    eauth: { sharedsecret: password },
  });
  const master = createMaster({ config, extensions: [bridge] });
  await master.start();
  const api = await createSaltApi(master, {
    host: '127.0.0.1',
    plugins: [bridge.http],
    webhookDisableAuth: true,
    runnerTimeoutSeconds: 2,
  });
  try {
    const { port } = await api.listen();
    await work(port, [...(await tokensOf(master, port)), 'x'.repeat(40)]);
  } finally {
    await api.close();
    await master.close();
    await rm(rootDir, { recursive: true, force: true });
  }
}

/** Returns a token of the master itself, and a session of a user with few rights. */
async function tokensOf(master: Master, port: number): Promise<readonly string[]> {
  const { token } = await master.logins.login({
    username: 'admin',
    password,
    eauth: 'sharedsecret',
  });
  const sessions: string[] = [];
  for (const username of ['admin', 'limited']) {
    const response = await fetch(`http://127.0.0.1:${port}/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ username, password, eauth: 'sharedsecret' }),
    });
    sessions.push(response.headers.get('x-auth-token') ?? '');
  }
  return [token, ...sessions];
}
