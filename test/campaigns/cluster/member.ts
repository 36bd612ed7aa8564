/**
 * A master of the campaign `cluster`: `member.js DIRECTORY HISTORY`. It runs the same code as
 * `saltbridge master`, with the ledger, and with a clock that its parent sets. Its log goes to
 * standard error. The exit code is 3 if the store and the log have different histories.
 */

import { loadSaltConfig } from '#config';
import { createLogger } from '#master';
import { codeOf } from '#runtime';
import { createMasterServer } from '#server';
import { Ledger } from './ledger.ts';
import type { MemberEnd, MemberOrder } from './member-process.ts';

const [, , directory = '', historyFile = '', clockMs = '0'] = process.argv;
const { config } = await loadSaltConfig(directory);
let aheadMs = Number(clockMs);
const server = await createMasterServer({
  config,
  logger: createLogger('info', process.stderr),
  now: () => Date.now() + aheadMs,
  extensions: [new Ledger(historyFile)],
});

async function end(error: Error | undefined): Promise<never> {
  const told: MemberEnd = { code: codeOf(error), message: error?.message ?? '' };
  await new Promise<void>((resolve) => {
    if (process.send === undefined || error === undefined) resolve();
    else process.send(told, () => resolve());
  });
  process.exit(error === undefined ? 0 : 3);
}

process.on('message', ({ clockMs: ms }: MemberOrder) => {
  aheadMs = ms;
});
process.once('disconnect', () => process.exit(0));
process.once('SIGTERM', () => void server.close());
void server.master.closed.then(end);
try {
  await server.start();
} catch (error) {
  await end(error instanceof Error ? error : new Error(String(error)));
}
